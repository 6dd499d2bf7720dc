#!/bin/sh
# Installs the program svc from a release: downloads the file for this system, compares its SHA-256 digest, moves it into
# place. It needs curl or wget, and sha256sum or shasum. It never uses sudo and edits no profile.
#
#   SVC_VERSION      for example 0.1.0 (default: the latest)
#   SVC_INSTALL_DIR  folder of the program (default: $HOME/.local/bin)
#   SVC_RELEASE_URL  address of the releases (default: where this file was released)

default_url=

fail() {
  printf 'install.sh: %s\n' "$1" >&2
  exit 1
}

# Downloads one file of the release into $work.
download() {
  if command -v curl >/dev/null; then
    curl --proto "=$protocol" --globoff --fail --location --silent --show-error \
      --connect-timeout 30 --max-time 900 --output "$work/$1" "$url/$path/$1"
  else
    wget -q -T 60 -O "$work/$1" "$url/$path/$1"
  fi || fail "$url/$path/$1 could not be downloaded. Nothing was installed."
}

# Prints the SHA-256 digest of standard input.
digest() {
  if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi
}

install_svc() {
  set -eu
  command -v curl >/dev/null || command -v wget >/dev/null || fail 'It needs curl or wget.'
  command -v sha256sum >/dev/null || command -v shasum >/dev/null || fail 'It needs sha256sum or shasum.'

  folder=${SVC_INSTALL_DIR:-${HOME:?set HOME or SVC_INSTALL_DIR}/.local/bin}
  [ ! -d "$folder/svc" ] || fail "$folder/svc is a folder."

  version=${SVC_VERSION:-latest}
  case $version in
  latest) path=latest/download ;;
  *[!0-9A-Za-z.+-]*) fail 'SVC_VERSION is not a version.' ;;
  *) path=download/v${version#v} ;;
  esac

  url=${SVC_RELEASE_URL:-$default_url}
  url=${url%/}
  case $url in
  '') fail 'Set SVC_RELEASE_URL to the address of the releases.' ;;
  *@*) fail 'SVC_RELEASE_URL must not hold a user name.' ;;
  https://*) protocol=https ;;
  http://127.0.0.1[:/]* | http://localhost[:/]* | 'http://[::1]'[:/]*) protocol=http ;;
  *) fail 'SVC_RELEASE_URL must begin with https://, or name a loopback address.' ;;
  esac

  case $(uname -s) in
  Linux) system=linux ;;
  Darwin) system=macos ;;
  *) fail "There is no file for $(uname -s). The npm package runs where Node runs." ;;
  esac
  case $(uname -m) in
  x86_64 | amd64) machine=x64 ;;
  aarch64 | arm64) machine=arm64 ;;
  *) fail "There is no file for $(uname -m)." ;;
  esac
  file=svc-$system-$machine

  work=$(mktemp -d)
  next=
  trap 'rm -rf "$work"; [ -z "$next" ] || rm -f "$next"' EXIT
  trap 'exit 1' HUP INT TERM
  download SHA256SUMS
  download "$file"
  expected=$(grep "^[0-9a-f]*  $file\$" "$work/SHA256SUMS") || fail "SHA256SUMS does not list $file. Nothing was installed."
  actual=$(digest <"$work/$file")
  [ "${actual%% *}" = "${expected%% *}" ] || fail "The digest of $file differs from SHA256SUMS. Nothing was installed."

  mkdir -p "$folder"
  next=$folder/.svc.$$
  cp "$work/$file" "$next"
  chmod 755 "$next"
  mv -f "$next" "$folder/svc"

  echo "Installed $folder/svc"
  case :$PATH: in
  *:"$folder":*) ;;
  *) echo "Add $folder to PATH." ;;
  esac
  repository='<owner>/<name>'
  case $url in https://github.com/*/releases) repository=${url#https://github.com/} ;; esac
  echo 'The file and its checksum come from the same place. A stronger check, with the tool gh:'
  echo "  gh attestation verify '$folder/svc' --repo ${repository%/releases}"
}

(install_svc)

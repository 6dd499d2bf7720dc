/** What a sent message says of its wait in the connector while it is not `kept`. */
export const NOT_KEPT = { until: null, nextTryAt: null, attempts: 0 } as const;

export * from "npm:hono@4.13.19";

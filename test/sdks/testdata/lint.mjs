// Prints the findings of Redocly's linter in an OpenAPI document, a line each, and their number.
import { createConfig, lint } from "@redocly/openapi-core";

const config = await createConfig({
  extends: ["recommended"],
  rules: { "no-unused-components": "off" }, // OpenAPI 3.1 has no place for the schema of a stream's events
});
const found = await lint({ ref: process.argv[2], config });
for (const { severity, ruleId, location, message } of found) {
  console.log(`${severity} ${ruleId} ${location[0]?.pointer}: ${message}`);
}
console.log(`${found.length} found`);

// Reopens the stream of a response after an event, and prints how it ends, the text that it gets,
// and the number of the last event.
//
//   BASE=http://127.0.0.1:8081 node lost.mjs RESPONSE STARTING_AFTER
import OpenAI from "openai";

const openai = new OpenAI({ baseURL: process.env.BASE + "/v1", apiKey: "none", maxRetries: 0 });
const line = { client: "openai-retrieve", text: "" };
try {
  const from = { stream: true, starting_after: Number(process.argv[3]) };
  for await (const event of await openai.responses.retrieve(process.argv[2], from)) {
    line.last = event.sequence_number;
    if (event.type === "response.output_text.delta") line.text += event.delta;
  }
} catch (e) {
  line.error = `${e.code ?? ""} ${e.message}`;
}
console.log(JSON.stringify(line));

// BullMQ runs so many jobs at once for each Worker, not for each session (groups are in its Pro version).
// So there is a queue for each slot, with a Worker that takes one job at a time, and a session's number says
// which queue is its. A long turn holds up the other sessions of its queue.
import { Queue, Worker } from "bullmq";
import { handle, job, obey } from "./child.mjs";

const [host, port] = job.address.split(":");
const connection = { host, port: Number(port), maxRetriesPerRequest: null };

const queues = Array.from({ length: job.slots }, (_, i) => new Queue(`q${i}`, { connection }));
await Promise.all(queues.map((queue) => queue.waitUntilReady()));

let workers = [];
await obey({
  send: (session, message) => queues[session % job.slots].add("bench", message, { removeOnComplete: true }),
  work: async () => {
    workers = queues.map((queue) => new Worker(queue.name, ({ data }) => handle(data), { connection, concurrency: 1 }));
  },
  stop: () => Promise.all(workers.map((worker) => worker.close())),
});

// Workers that answer made-up requests: unpack a body, parse it, change it, print it and pack it again.
//
// JavaScript objects never see malloc: they live in V8's own heap, and so does most of this program's memory. What does
// is native memory: zlib's state, a quarter of a megabyte for each packing, and the contents of all but the smallest
// buffers. Each request makes both anew, as a server does.

import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { gunzipSync, gzipSync } from "node:zlib";

const RECORDS = 100;

function main() {
  const { threads, amount } = parse(process.argv.slice(2));
  let digest = 0;
  let left = threads;
  for (let first = 0; first < threads; first++) {
    const worker = new Worker(new URL(import.meta.url), { workerData: { first, threads, amount } });
    worker.on("message", (part) => {
      // A sum, so that it does not matter which worker had which request.
      digest = (digest + part) >>> 0;
      left -= 1;
      if (left === 0) {
        console.log(JSON.stringify({ workload: "requests", threads, operations: amount, digest }));
      }
    });
    worker.on("error", (error) => {
      throw error;
    });
  }
}

function parse(words) {
  const parsed = { threads: 1, amount: 2000 };
  for (let index = 0; index < words.length; index += 2) {
    const name = { "--threads": "threads", "--amount": "amount" }[words[index]];
    const value = Number(words[index + 1]);
    if (name === undefined || !Number.isSafeInteger(value) || value < 1) {
      console.error("usage: node requests.mjs [--threads N] [--amount N]");
      process.exit(2);
    }
    parsed[name] = value;
  }
  return parsed;
}

function work({ first, threads, amount }) {
  let digest = 0;
  for (let request = first; request < amount; request += threads) {
    digest = (digest + hash(answer(body(request)), request)) >>> 0;
  }
  parentPort.postMessage(digest);
}

/** What a client sends: packed JSON that differs from request to request. */
function body(request) {
  const records = Array.from({ length: RECORDS }, (_, id) => ({
    id,
    name: `user ${(id * 7919 + request) % 10007}`,
    tags: [`t${(id ^ request) % 17}`, `u${(id + request) % 23}`],
    position: [id / 8, request / 16],
  }));
  return gzipSync(JSON.stringify({ request, records }), { level: 1 });
}

function answer(packed) {
  const { request, records } = JSON.parse(gunzipSync(packed));
  const found = records.filter((record) => record.tags.includes(`t${request % 17}`));
  const text = Buffer.from(JSON.stringify({ request, found, records }));
  return gunzipSync(gzipSync(text, { level: 1 }));
}

function hash(bytes, seed) {
  let hash = seed;
  for (let index = 0; index < bytes.length; index += 61) {
    hash = Math.imul(hash ^ bytes[index], 0x01000193);
  }
  return (hash ^ bytes.length) >>> 0;
}

if (isMainThread) {
  main();
} else {
  work(workerData);
}

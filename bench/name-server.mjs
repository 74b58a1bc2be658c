// A name server on loopback for the benchmark's own names. It resolves every name to 127.0.0.1 until it is
// told to be silent.
import { createSocket } from 'node:dgram';
import { once } from 'node:events';

const HEADER_BYTES = 12;
const TYPE_A = 1;

/**
 * A response to one question: an A record if that was the question, else no record. RFC 1035, section 4.
 * @param {Buffer} question
 */
function answerTo(question) {
  // A zero, the type and the class follow the labels of the name.
  const end = question.indexOf(0, HEADER_BYTES) + 5;
  const isA = question.readUInt16BE(end - 4) === TYPE_A;
  const header = Buffer.from(question.subarray(0, HEADER_BYTES));
  header.writeUInt16BE(0x8180, 2);
  header.writeUInt16BE(isA ? 1 : 0, 6);
  header.writeUInt32BE(0, 8);
  // A pointer to the name, type A, class IN, a time to live of 0 s, and four bytes of address.
  const record = isA ? [0xc0, HEADER_BYTES, 0, TYPE_A, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1] : [];
  return Buffer.concat([header, question.subarray(HEADER_BYTES, end), Buffer.from(record)]);
}

/** Resolves with its address as `host:port`, `silence()`, and `stop()`. */
export async function startNameServer() {
  const socket = createSocket('udp4');
  let silent = false;
  socket.on('message', (question, { port, address }) => {
    if (!silent) {
      socket.send(answerTo(question), port, address);
    }
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    address: `127.0.0.1:${socket.address().port}`,
    silence: () => {
      silent = true;
    },
    stop: () => socket.close(),
  };
}

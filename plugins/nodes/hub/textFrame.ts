import type { Duplex } from 'node:stream'

/** A whole text message, from a server. */
const FIN_TEXT = '\x81'
/** Lengths up to here stand in the second byte; the two values after it say that 16 or 64 bits follow. */
const MAX_SHORT = 125
const MAX_16_BIT = 0xffff

/**
 * Writes a text message of the WebSocket protocol (RFC 6455, 5.2) in one piece. The library copies the text and writes the
 * frame's head apart from it: that costs a fifth more for each message.
 */
export const writeText = (socket: Duplex, text: string): void => {
  const bytes = Buffer.byteLength(text)
  const head = FIN_TEXT + lengthOf(bytes)
  // ASCII goes out as it stands; anything else has to be encoded, after a head that must not be.
  if (bytes === text.length) socket.write(head + text, 'latin1')
  else {
    const frame = Buffer.allocUnsafe(head.length + bytes)
    frame.write(head, 'latin1')
    frame.write(text, head.length, 'utf8')
    socket.write(frame)
  }
}

const lengthOf = (bytes: number): string => {
  if (bytes <= MAX_SHORT) return String.fromCharCode(bytes)
  if (bytes <= MAX_16_BIT) return String.fromCharCode(MAX_SHORT + 1, bytes >> 8, bytes & 0xff)
  const length = Buffer.allocUnsafe(8)
  length.writeBigUInt64BE(BigInt(bytes))
  return String.fromCharCode(MAX_SHORT + 2) + length.toString('latin1')
}

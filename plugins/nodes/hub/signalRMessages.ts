/** Every message of the JSON hub protocol ends with it. */
const SEPARATOR = '\x1e'

/** Message types of the SignalR hub protocol, from its specification (dotnet/aspnetcore, HubProtocol.md). */
const TYPE = { invocation: 1, completion: 3, streamInvocation: 4, ping: 6, close: 7 } as const

/** What a client says; what needs no answer and changes nothing is `other`. */
export type ClientMessage =
  | { kind: 'invocation'; target: string; argument: unknown; invocationId: string | undefined }
  | { kind: 'stream'; invocationId: string }
  | { kind: 'close' }
  | { kind: 'other' }

/** The messages of one frame. Throws when it is not whole messages of JSON objects, or one of them is longer than `maxLength`. */
export const readFrame = (frame: string, maxLength: number): Record<string, unknown>[] => {
  if (!frame.endsWith(SEPARATOR)) throw new TypeError('The frame does not end with the record separator')
  const whole = frame.slice(0, -1)
  const texts = whole.includes(SEPARATOR) ? whole.split(SEPARATOR) : [whole]
  if (texts.some(({ length }) => length > maxLength)) throw new RangeError(`A message is longer than ${maxLength} characters`)
  return texts.map(readMessage)
}

const readMessage = (text: string): Record<string, unknown> => {
  const message = JSON.parse(text) as unknown
  if (typeof message !== 'object' || message === null || Array.isArray(message)) throw new TypeError('A message is not an object')
  return message as Record<string, unknown>
}

export const toClientMessage = (message: Record<string, unknown>): ClientMessage => {
  const { type, target, arguments: parameters, invocationId: id } = message
  const invocationId = typeof id === 'string' ? id : undefined
  if (type === TYPE.invocation && typeof target === 'string')
    return { kind: 'invocation', target, argument: Array.isArray(parameters) ? (parameters[0] as unknown) : undefined, invocationId }
  if (type === TYPE.streamInvocation && invocationId !== undefined) return { kind: 'stream', invocationId }
  return { kind: type === TYPE.close ? 'close' : 'other' }
}

const frame = (message: unknown): string => `${JSON.stringify(message)}${SEPARATOR}`

export const PING = frame({ type: TYPE.ping })

export const invocation = (target: string, argument: unknown): string => frame({ type: TYPE.invocation, target, arguments: [argument] })

export const completion = (invocationId: string, error?: string): string =>
  frame({ type: TYPE.completion, invocationId, ...(error === undefined ? {} : { error }) })

/** Without `allowReconnect` a client that reconnects by itself stays away. */
export const closing = (error: string, allowReconnect: boolean): string =>
  frame({ type: TYPE.close, error, ...(allowReconnect ? { allowReconnect } : {}) })

/** The answer to the handshake: an empty object, or why not. */
export const handshakeAnswer = (error?: string): string => frame(error === undefined ? {} : { error })

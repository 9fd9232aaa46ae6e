/** The largest answer read from a model endpoint. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024

/** `fetch` whose body fails beyond 16 MiB, so that a broken endpoint cannot fill the memory. */
export const boundedFetch: typeof fetch = async (input, init) => {
  const response = await fetch(input, init)
  if (!response.body) return response
  let bytes = 0
  const counted = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        bytes += chunk.byteLength
        if (bytes > MAX_ANSWER_BYTES) controller.error(new Error(`the answer is larger than ${MAX_ANSWER_BYTES} bytes`))
        else controller.enqueue(chunk)
      },
    }),
  )
  const { status, statusText, headers } = response
  return new Response(counted, { status, statusText, headers })
}

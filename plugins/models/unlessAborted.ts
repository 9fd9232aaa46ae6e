/** The work's result, or the signal's reason as soon as it aborts: a tool that ignores its signal does not hold up the caller. */
export const unlessAborted = async <T>(signal: AbortSignal, work: Promise<T>): Promise<T> => {
  const { promise: aborted, reject } = withReject()
  const abort = (): void => reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', abort)
    // Its late failure is the abort that was reported already.
    work.catch(() => undefined)
  }
}

const withReject = (): { promise: Promise<never>; reject: (reason: unknown) => void } => {
  let reject: (reason: unknown) => void = () => undefined
  const promise = new Promise<never>((_, refuse) => {
    reject = refuse
  })
  return { promise, reject }
}

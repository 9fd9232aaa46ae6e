/** What comes of the work, if it does within this time (milliseconds), or else the other value. The work goes on. */
export const within = async <T>(timeMs: number, work: Promise<T>, otherwise: () => T): Promise<T> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>(resolve => {
    timer = setTimeout(() => resolve(undefined), timeMs)
  })
  try {
    const done = await Promise.race([work.then(value => ({ value })), late])
    return done ? done.value : otherwise()
  } finally {
    clearTimeout(timer)
  }
}

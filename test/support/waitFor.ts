/** Polls until `condition` gives something truthy, and returns it; fails after `timeoutMs` with `what`. */
export const waitFor = async <T>(what: string, condition: () => T | Promise<T>, timeoutMs = 15_000): Promise<NonNullable<T>> => {
  const deadline = Date.now() + timeoutMs
  for (;;) {
    const value = await condition()
    if (value) return value
    if (Date.now() > deadline) throw new Error(`waited ${String(timeoutMs)} ms in vain: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

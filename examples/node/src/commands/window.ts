import { defineCommand, integer, optional } from '@agent-gateway/sdk/node'
import { requireDesktop, runTool } from '../execute.js'
import { findWindow, listWindows, windowId } from '../windows.js'

const check = (): Promise<string> => requireDesktop('wmctrl')
const wmctrl = async (args: string[], signal: AbortSignal): Promise<string> => runTool(await requireDesktop('wmctrl'), args, { signal })

/** Which windows are open, and where. */
export const windowList = defineCommand({
  name: 'window.list',
  params: {},
  repeatable: true,
  check,
  run: async (_params, { signal }) => ({ windows: await listWindows(signal) }),
})

/** Brings a window to the front; what is typed goes there. */
export const windowFocus = defineCommand({
  name: 'window.focus',
  params: { windowId },
  lane: 'input',
  check,
  run: async ({ windowId: id }, { signal }) => {
    await findWindow(id, signal)
    await wmctrl(['-i', '-a', id], signal)
    return { windowId: id }
  },
})

const place = optional(integer({ min: -100_000, max: 100_000 }))
const size = optional(integer({ min: 1, max: 100_000 }))

/** Moves a window, or gives it another size; what is left out stays. */
export const windowMove = defineCommand({
  name: 'window.move',
  params: { windowId, x: place, y: place, width: size, height: size },
  lane: 'input',
  check,
  run: async ({ windowId: id, x, y, width, height }, { signal }) => {
    await findWindow(id, signal)
    // -1 leaves a value as it is.
    const geometry = [0, x, y, width, height].map(value => value ?? -1).join(',')
    await wmctrl(['-i', '-r', id, '-e', geometry], signal)
    return { ...(await findWindow(id, signal)) }
  },
})

/** Asks a window to close; it may ask back. */
export const windowClose = defineCommand({
  name: 'window.close',
  params: { windowId },
  check,
  run: async ({ windowId: id }, { signal }) => {
    await findWindow(id, signal)
    await wmctrl(['-i', '-c', id], signal)
    return { windowId: id }
  },
})

import { invalidParams, string } from '@agent-gateway/sdk/node'
import { requireDesktop, runTool } from './execute.js'

/** A window on the desktop, its place in pixels. */
export interface DesktopWindow {
  windowId: string
  desktop: number
  pid: number
  x: number
  y: number
  width: number
  height: number
  className: string
  title: string
}

/** As `window.list` names it. */
export const windowId = string({ pattern: /^0x[0-9a-f]{1,8}$/ })

/** `0x00400030  0 1234  357  301  88   52   xmessage.Xmessage  host Title of the window` */
const LINE = /^(0x[0-9a-f]+)\s+(-?\d+)\s+(\d+)\s+(-?\d+)\s+(-?\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+\S+ ?(.*)$/

/** Every window that the window manager manages. */
export const listWindows = async (signal: AbortSignal): Promise<DesktopWindow[]> => {
  const printed = await runTool(await requireDesktop('wmctrl'), ['-lGpx'], { signal })
  return printed.split('\n').flatMap(line => {
    const [, id, desktop, pid, x, y, width, height, className, title] = LINE.exec(line) ?? []
    if (id === undefined || className === undefined) return []
    const place = { x: Number(x), y: Number(y), width: Number(width), height: Number(height) }
    return [{ windowId: id, desktop: Number(desktop), pid: Number(pid), ...place, className, title: title ?? '' }]
  })
}

/** Rejects with `invalid_params` when there is none of this id. */
export const findWindow = async (id: string, signal: AbortSignal): Promise<DesktopWindow> => {
  const found = (await listWindows(signal)).find(({ windowId: one }) => Number(one) === Number(id))
  if (!found) throw invalidParams('windowId', `there is no window ${id}`)
  return found
}

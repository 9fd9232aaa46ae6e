import { choice, defineCommand, integer, invalidParams, object, optional, withDefault } from '@agent-gateway/sdk/node'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { requireDesktop, runTool } from '../execute.js'
import { imageSize } from '../imageSize.js'
import { findWindow, windowId } from '../windows.js'

const coordinate = integer({ min: 0, max: 100_000 })
const length = integer({ min: 1, max: 100_000 })

interface Region {
  x: number
  y: number
  width: number
  height: number
}

/** The screen, a part of it or a window, as an image in base64. */
export const screenCapture = defineCommand({
  name: 'screen.capture',
  params: {
    region: optional(object({ x: coordinate, y: coordinate, width: length, height: length })),
    windowId: optional(windowId),
    format: withDefault(choice('png', 'jpeg'), 'png'),
    quality: withDefault(integer({ min: 1, max: 100 }), 80),
  },
  repeatable: true,
  check: () => requireDesktop('scrot', 'import'),
  run: async ({ region, windowId: id, format, quality }, { signal }) => {
    const tool = await requireDesktop('scrot', 'import')
    const part = id === undefined ? region : visible(await findWindow(id, signal))
    const folder = await mkdtemp(join(tmpdir(), 'node-capture-'))
    try {
      const file = join(folder, `image.${format === 'png' ? 'png' : 'jpg'}`)
      const args = basename(tool) === 'scrot' ? scrotArgs(part, quality, file) : importArgs(part, quality, file)
      await runTool(tool, args, { signal })
      const image = await readFile(file)
      return { image: image.toString('base64'), sizeBytes: image.length, format, ...imageSize(image) }
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
})

/** A window may hang over the left or upper edge. */
const visible = ({ x, y, width, height }: Region): Region => {
  const left = Math.max(0, x)
  const top = Math.max(0, y)
  const part = { x: left, y: top, width: x + width - left, height: y + height - top }
  if (part.width <= 0 || part.height <= 0) throw invalidParams('windowId', 'the window is not on the screen')
  return part
}

const scrotArgs = (part: Region | undefined, quality: number, file: string): string[] => [
  ...(part ? ['--autoselect', `${part.x},${part.y},${part.width},${part.height}`] : []),
  '--quality',
  String(quality),
  '--silent',
  '--overwrite',
  file,
]

const importArgs = (part: Region | undefined, quality: number, file: string): string[] => [
  '-silent',
  '-window',
  'root',
  ...(part ? ['-crop', `${part.width}x${part.height}+${part.x}+${part.y}`, '+repage'] : []),
  // Of a PNG this would be its compression.
  ...(file.endsWith('.jpg') ? ['-quality', String(quality)] : []),
  file,
]

/** Which monitors there are. */
export const screenList = defineCommand({
  name: 'screen.list',
  params: {},
  repeatable: true,
  check: () => requireDesktop('xrandr'),
  run: async (_params, { signal }) => {
    const printed = await runTool(await requireDesktop('xrandr'), ['--listmonitors'], { signal })
    return { screens: printed.split('\n').flatMap(toScreen) }
  },
})

/** ` 0: +*eDP-1 1920/344x1080/194+0+0  eDP-1` */
const MONITOR = /^\s*\d+:\s+\+?(\*?)(\S+)\s+(\d+)\/\d+x(\d+)\/\d+\+(-?\d+)\+(-?\d+)/

const toScreen = (line: string): object[] => {
  const [, primary, name, width, height, x, y] = MONITOR.exec(line) ?? []
  if (name === undefined) return []
  return [{ name, isPrimary: primary === '*', x: Number(x), y: Number(y), width: Number(width), height: Number(height) }]
}

import { join, resolve } from 'node:path'
import { idFileName } from './idFileName.js'

/** What a plugin has a directory for, below the data directory. */
export type PlaceKind = 'plugin-data' | 'plugin-exchange' | 'plugin-versions'

/** Where the host keeps what it keeps. All paths are absolute. */
export class Places {
  readonly dataDir: string

  constructor(dataDir: string) {
    this.dataDir = resolve(dataDir)
  }

  /** One plugin's directory of that kind. */
  of(kind: PlaceKind, id: string): string {
    return join(this.dataDir, kind, idFileName(id))
  }

  /** The plugin directory that is looked through beside those of the settings. */
  get plugins(): string {
    return join(this.dataDir, 'plugins')
  }

  get installs(): string {
    return join(this.dataDir, 'plugin-installs')
  }

  get unpacked(): string {
    return join(this.dataDir, 'plugin-archives', 'unpacked')
  }

  /** What the sandboxes show of the machine instead of what it is. */
  get shown(): string {
    return join(this.dataDir, 'plugin-shown')
  }

  /** Files that are put together before they are moved to where a plugin can reach them. */
  get exchangeDrafts(): string {
    return join(this.dataDir, 'tmp', 'exchange')
  }

  /** What calls and installations of a gateway that was killed have left behind. */
  get leftovers(): string[] {
    return [join(this.dataDir, 'plugin-exchange'), this.exchangeDrafts, join(this.dataDir, 'tmp', 'installs')]
  }
}

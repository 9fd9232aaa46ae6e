import type { Plugin } from '../core/plugin.js'

/** Every internal plugin of the gateway, in any order: they start by their needs. */
export const plugins: readonly Plugin[] = []

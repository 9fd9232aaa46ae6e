import { inspectManifest, PLUGIN_INTERFACES, type Manifest } from '../manifest.js'
import { isSemver } from '../manifestFields.js'
import { isObject, pathText, shown } from '../manifestIssues.js'
import { JsonError, parseJsonWithPlaces, type Place, type PlacedJson } from './jsonPlaces.js'

/** One thing that is wrong with a manifest, and where. Errors stop a build, warnings do not. */
export interface ManifestProblem extends Place {
  severity: 'error' | 'warning'
  message: string
}

export interface PublishingCheck {
  problems: ManifestProblem[]
  /** Given when there is no error. */
  manifest?: Manifest
}

const examples: Record<string, string> = {
  name: '"name": "my-plugin"',
  version: '"version": "1.0.0"',
  description: '"description": "Connects ... to the gateway"',
  entrypoint: '"entrypoint": "src/index.ts"',
}

/** Checks the text of a `manifest.json` as it must be to be published: stricter than the gateway, which fills in what is missing. */
export function validateForPublishing(text: string, { directoryName }: { directoryName: string }): PublishingCheck {
  let json: PlacedJson
  try {
    json = parseJsonWithPlaces(text)
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    return { problems: [{ severity: 'error', ...error.place, message: `no valid JSON: ${error.message}` }] }
  }
  const problems = new Map<string, ManifestProblem>()
  const add = (severity: ManifestProblem['severity'], path: readonly (string | number)[], message: string): void => {
    const where = path.length === 0 ? '' : `${pathText(path)}: `
    const key = JSON.stringify(path)
    if (!problems.has(key)) problems.set(key, { severity, ...json.placeOf(path), message: where + message })
  }
  if (isObject(json.value)) checkRequired(json.value, add)
  const inspected = inspectManifest(json.value, { directoryName })
  if (inspected.kind === 'notPlugin') {
    add(
      'error',
      isObject(json.value) ? ['pluginInterface'] : [],
      `is missing: write "pluginInterface": with one of ${PLUGIN_INTERFACES.join(', ')}`,
    )
  } else {
    if (inspected.kind === 'rejected') add('error', inspected.reason.path, inspected.reason.message)
    for (const { path, message } of inspected.warnings) add('warning', path, message)
  }
  const list = [...problems.values()].sort((a, b) => a.line - b.line || a.column - b.column)
  const broken = list.some(({ severity }) => severity === 'error')
  return inspected.kind === 'manifest' && !broken ? { problems: list, manifest: inspected.manifest } : { problems: list }
}

function checkRequired(manifest: Record<string, unknown>, add: (severity: 'error', path: string[], message: string) => void): void {
  for (const [name, example] of Object.entries(examples)) {
    const value = Object.hasOwn(manifest, name) ? manifest[name] : undefined
    if (value === undefined) add('error', [name], `is missing: write for example ${example}`)
    else if (typeof value !== 'string' || value.trim() === '')
      add('error', [name], `must be a text, not ${shown(value)}: write for example ${example}`)
    else if (name === 'version' && !isSemver(value))
      add('error', [name], `${shown(value)} is no SemVer version: write for example ${example}`)
  }
}

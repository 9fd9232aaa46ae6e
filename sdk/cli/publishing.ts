import { inspectManifest, PLUGIN_INTERFACES, type Manifest } from '../manifest.js'
import { isSemver } from '../manifestFields.js'
import { isObject, pathText, shown, type ManifestPath } from '../manifestIssues.js'
import { JsonError, parseJsonWithPlaces, type Place, type PlacedJson } from './jsonPlaces.js'
import { nearest } from './nearest.js'

/** One thing that is wrong with a manifest, and where. Errors stop a build, warnings do not. */
export interface ManifestProblem extends Place {
  severity: 'error' | 'warning'
  message: string
}

/** Adds a problem at a place; the first one there stands. */
export type AddProblem = (severity: ManifestProblem['severity'], path: ManifestPath, message: string) => void

export interface PublishingCheck {
  /** Everything found so far, in the order of the file. */
  problems: () => ManifestProblem[]
  /** Given when there is no error. */
  manifest?: Manifest
  /** The file's content; absent when it is no JSON. */
  json?: unknown
  add: AddProblem
}

const examples: Record<string, string> = {
  name: '"name": "my-plugin"',
  version: '"version": "1.0.0"',
  description: '"description": "Connects ... to the gateway"',
  entrypoint: '"entrypoint": "src/index.ts"',
}

const FIELDS = [
  ...['name', 'version', 'description', 'author', 'type', 'pluginInterface', 'entrypoint', 'channelType', 'providerType'],
  ...['supportedExtensions', 'recipientMetadataKey', 'metadata', 'settings', 'permissions', 'files'],
]
const SETTING_FIELDS = ['name', 'key', 'type', 'displayName', 'required', 'default']
const PERMISSION_FIELDS = ['net', 'dataDirectoryMb']

/** Checks the text of a `manifest.json` as it must be to be published: stricter than the gateway, which fills in what is missing. */
export function validateForPublishing(text: string, { directoryName }: { directoryName: string }): PublishingCheck {
  const found = new Map<string, ManifestProblem>()
  const problems = (): ManifestProblem[] => [...found.values()].sort((a, b) => a.line - b.line || a.column - b.column)
  let json: PlacedJson
  try {
    json = parseJsonWithPlaces(text)
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    found.set('', { severity: 'error', ...error.place, message: `no valid JSON: ${error.message}` })
    return { problems, add: () => undefined }
  }
  const add: AddProblem = (severity, path, message) => {
    const where = path.length === 0 ? '' : `${pathText(path)}: `
    const key = JSON.stringify(path)
    if (!found.has(key)) found.set(key, { severity, ...json.placeOf(path), message: where + message })
  }
  if (isObject(json.value)) checkRequired(json.value, add)
  const inspected = inspectManifest(json.value, { directoryName })
  if (inspected.kind === 'notPlugin') addNoInterface(json.value, add)
  else {
    if (inspected.kind === 'rejected') add('error', inspected.reason.path, inspected.reason.message)
    for (const { path, message } of inspected.warnings) add('warning', path, message)
  }
  checkSpelling(json.value, add)
  const broken = problems().some(({ severity }) => severity === 'error')
  const manifest = inspected.kind === 'manifest' && !broken ? { manifest: inspected.manifest } : {}
  return { problems, add, json: json.value, ...manifest }
}

function addNoInterface(json: unknown, add: AddProblem): void {
  const what = `is missing: write "pluginInterface": with one of ${PLUGIN_INTERFACES.join(', ')}`
  add('error', isObject(json) ? ['pluginInterface'] : [], what)
}

function checkRequired(manifest: Record<string, unknown>, add: AddProblem): void {
  for (const [name, example] of Object.entries(examples)) {
    const value = Object.hasOwn(manifest, name) ? manifest[name] : undefined
    if (value === undefined) add('error', [name], `is missing: write for example ${example}`)
    else if (typeof value !== 'string' || value.trim() === '')
      add('error', [name], `must be a text, not ${shown(value)}: write for example ${example}`)
    else if (name === 'version' && !isSemver(value))
      add('error', [name], `${shown(value)} is no SemVer version: write for example ${example}`)
  }
}

/** Unknown fields are allowed; one that is nearly a known one is a slip. */
function checkSpelling(json: unknown, add: AddProblem): void {
  if (!isObject(json)) return
  const check = (object: unknown, known: readonly string[], path: ManifestPath): void => {
    if (!isObject(object)) return
    for (const name of Object.keys(object).filter(key => !known.includes(key))) {
      const meant = nearest(name, known)
      if (meant !== undefined && !Object.hasOwn(object, meant))
        add('warning', [...path, name], `is no field of a manifest: write "${meant}"`)
    }
  }
  check(json, FIELDS, [])
  check(json.permissions, PERMISSION_FIELDS, ['permissions'])
  if (Array.isArray(json.settings))
    for (const [index, setting] of json.settings.entries()) check(setting, SETTING_FIELDS, ['settings', index])
}

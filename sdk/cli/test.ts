import { stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { CheckResult } from '../conformance/check.js'
import { readSettingsFile, testConformance, type ConformanceReport } from '../conformance/run.js'
import { readManifest } from '../pluginFolder.js'
import { bundle } from './bundle.js'
import { checkProject, CliError, isScript } from './project.js'

export interface TestOptions {
  sample?: string
  settings?: string
  build: boolean
}

const MARKS = { pass: 'pass', fail: 'FAIL', skip: 'skip' } as const

/** Runs the conformance kit over a folder or an archive, and prints each check as it ends. Returns whether none failed. */
export async function testPlugin(path: string, { sample, settings, build }: TestOptions, say: (line: string) => void): Promise<boolean> {
  const target = resolve(path)
  const found = await stat(target).catch(() => undefined)
  if (!found) throw new CliError(`${path} does not exist: name a plugin's folder or a .service-plugin archive`)
  if (sample !== undefined && !(await stat(sample).catch(() => undefined))) throw new CliError(`The sample ${sample} does not exist`)
  const values = settings === undefined ? {} : await readSettings(settings)
  if (build && found.isDirectory()) await buildFirst(target)
  const options = { ...(sample === undefined ? {} : { sample: resolve(sample) }), settings: values }
  const report = await testConformance(target, { ...options, onResult: result => say(describeResult(result)) }).catch((error: unknown) => {
    throw new CliError((error as Error).message)
  })
  say(describeReport(report))
  return report.passed
}

async function readSettings(file: string): Promise<Record<string, string>> {
  return readSettingsFile(file).catch((error: unknown) => {
    throw new CliError(`${file}: ${(error as Error).message}`)
  })
}

/** What has a source is built from it: an old bundle would be tested else. */
async function buildFirst(directory: string): Promise<void> {
  const entrypoint = (await readManifest(directory).catch(() => undefined))?.entrypoint
  if (entrypoint === undefined || !(await stat(join(directory, entrypoint)).catch(() => undefined))) return
  const { project } = await checkProject(directory)
  if (project && isScript(project)) await bundle(project)
}

const describeResult = ({ name, expected, outcome, reason }: CheckResult): string =>
  `${MARKS[outcome]}  ${name.padEnd(34)}  ${expected}${reason === undefined ? '' : `\n      ${outcome === 'fail' ? 'but ' : ''}${reason}`}`

function describeReport({ plugin, checks }: ConformanceReport): string {
  const count = (outcome: CheckResult['outcome']): number => checks.filter(check => check.outcome === outcome).length
  return `${plugin.name} ${plugin.version} (${plugin.pluginInterface}): ${count('pass')} passed, ${count('fail')} failed, ${count('skip')} skipped`
}

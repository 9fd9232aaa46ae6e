import { randomBytes, randomUUID } from 'node:crypto'
import { watch, type FSWatcher } from 'node:fs'
import { lstat, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { GatewayError } from '../../core/errors.js'
import { writeFileAtomically } from '../../core/files.js'
import type { Log } from '../../core/log.js'
import type { Audit } from '../audit/contract.js'
import { Email } from './accountPolicy.js'
import { Passwords } from './passwords.js'
import type { Users } from './users.js'

/**
 * New passwords that the operator asks for at the machine, as files in the data directory: who can write there has
 * everything anyway. A file holds the hash alone. The gateway takes it up at once, or at its next start.
 */
const DIRECTORY = 'password-resets'
const ASKED = '.json'
const DONE = '.done'
/** One that nobody took up by then is no longer wanted. */
const LIFE_MS = 3_600_000
const MAX_BYTES = 4_096
const MAX_AT_ONCE = 20
/** How long the command waits for a running gateway. */
const WAIT_MS = 5_000
const POLL_MS = 50

const Asked = z.object({ email: Email, passwordHash: z.string().startsWith('$argon2id$').max(500) })
const Done = z.object({ problem: z.string().nullable() })

interface Parts {
  dataDir: string
  users: Users
  audit: Audit
  log: Log
}

/** Takes up what the command has asked for. */
export class PasswordResets {
  readonly #parts: Parts
  readonly #directory: string
  #watcher: FSWatcher | undefined
  #looking = Promise.resolve()

  constructor(parts: Parts) {
    this.#parts = parts
    this.#directory = join(parts.dataDir, DIRECTORY)
  }

  /** Resolves when what waits is done; what is asked for later is taken up then. */
  async start(): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 })
    const unwatched = (error: unknown): void => {
      this.#parts.log.warn({ err: error }, 'the directory of password resets cannot be watched: they are taken up at the next start')
    }
    try {
      this.#watcher = watch(this.#directory, { persistent: false }, () => void this.#look()).on('error', unwatched)
    } catch (error) {
      // The system has no watches left, or the directory is another user's: no reason not to start.
      unwatched(error)
    }
    await this.#look()
  }

  async stop(): Promise<void> {
    this.#watcher?.close()
    await this.#looking
  }

  #look(): Promise<void> {
    this.#looking = this.#looking.then(async () => {
      const names = await readdir(this.#directory)
      for (const name of names.filter(each => each.endsWith(DONE))) await this.#forget(join(this.#directory, name))
      const asked = names.filter(name => name.endsWith(ASKED)).slice(0, MAX_AT_ONCE)
      for (const name of asked) await this.#takeUp(join(this.#directory, name)).catch(this.#complain)
    })
    this.#looking = this.#looking.catch(this.#complain)
    return this.#looking
  }

  readonly #complain = (error: unknown): void => {
    this.#parts.log.error({ err: error }, 'a password could not be reset')
  }

  /** An answer that the command did not wait for. */
  async #forget(file: string): Promise<void> {
    const found = await stat(file).catch(() => undefined)
    if (found && found.mtimeMs < Date.now() - LIFE_MS) await rm(file, { force: true })
  }

  async #takeUp(file: string): Promise<void> {
    const found = await lstat(file)
    if (!found.isFile() || found.size > MAX_BYTES || Math.abs(Date.now() - found.mtimeMs) > LIFE_MS) {
      await rm(file, { force: true, recursive: true })
      return
    }
    const problem = await this.#reset(await readFile(file, 'utf8'))
    await writeFileAtomically(file.slice(0, -ASKED.length) + DONE, JSON.stringify({ problem }))
    await rm(file, { force: true })
  }

  async #reset(text: string): Promise<string | null> {
    const { users, audit, log } = this.#parts
    const asked = Asked.safeParse(parse(text))
    if (!asked.success) return 'the request is damaged'
    const { email, passwordHash } = asked.data
    try {
      const { id, tenant } = await users.resetPassword(email, passwordHash)
      await audit.record(null, { action: 'users.resetPassword', target: id, details: { email }, tenant })
      log.warn(`the password of ${email} was reset at the machine, and its sessions ended`)
      return null
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      log.error(`the password of ${email} was not reset: ${error.message}`)
      return error.message
    }
  }
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

/**
 * The command: asks for a new random password, and tells it. Rejects with what is wrong, in words for the operator.
 * `applied: false`: no gateway has taken it up, and the next start on this data directory does, within an hour.
 */
export const askForReset = async (dataDir: string, email: string, waitMs = WAIT_MS): Promise<{ password: string; applied: boolean }> => {
  const named = Email.safeParse(email)
  if (!named.success) throw new Error(`${email} is not an e-mail address`)
  const password = randomBytes(15).toString('base64url')
  const place = join(dataDir, DIRECTORY, randomUUID())
  const { uid } = await stat(dataDir).catch(() => {
    throw new Error(`there is no data directory ${dataDir}: say which one, as for the gateway itself`)
  })
  // What root writes there the gateway could not read, nor what is asked for later in a directory of root.
  if (process.getuid?.() === 0 && uid !== 0)
    throw new Error(`the data directory ${dataDir} is of the user ${uid}: run this as that user, for example with sudo -u '#${uid}'`)
  const passwordHash = await new Passwords().hash(password)
  await writeFileAtomically(place + ASKED, JSON.stringify({ email: named.data, passwordHash }))
  for (const end = Date.now() + waitMs; Date.now() < end;) {
    await sleep(POLL_MS)
    const answer = await readFile(place + DONE, 'utf8').catch(() => undefined)
    if (answer === undefined) continue
    await rm(place + DONE, { force: true })
    const { problem } = Done.parse(parse(answer))
    if (problem !== null) throw new Error(problem)
    return { password, applied: true }
  }
  return { password, applied: false }
}

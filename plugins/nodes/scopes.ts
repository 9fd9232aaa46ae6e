/** Families whose commands share one scope. */
const FAMILY_SCOPES: Readonly<Record<string, string>> = { input: 'input.control', app: 'app.manage' }

/** How commands and scopes are named: `family.name`. */
export const NAME = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/
export const MAX_NAME_LENGTH = 100

/** Whether a command can have this name. */
export const isCommandName = (name: string): boolean => name.length <= MAX_NAME_LENGTH && NAME.test(name)

/** The scopes any of which allows the command: its own name, or its family's. */
export const scopesFor = (command: string): string[] => {
  const family = FAMILY_SCOPES[command.split('.')[0] ?? '']
  return family === undefined || family === command || !command.includes('.') ? [command] : [command, family]
}

/** Whether a scope stands for a family of commands, and is no command itself. */
export const isFamilyScope = (scope: string): boolean => Object.values(FAMILY_SCOPES).includes(scope)

export const isInScope = (command: string, scopes: readonly string[]): boolean =>
  scopes.includes(command) || scopesFor(command).some(scope => scopes.includes(scope))

/** Who has to be asked about whom before a command runs: only agents, or everyone who sends commands. */
export interface CriticalPolicy {
  /** Names, `family.*` or `*`. */
  commands: readonly string[]
  requesters: 'agents' | 'everyone'
}

/** Whether a command has to be approved by the node's owner first. */
export const needsApproval = (command: string, byAgent: boolean, { commands, requesters }: CriticalPolicy): boolean =>
  (byAgent || requesters === 'everyone') &&
  commands.some(pattern => pattern === '*' || pattern === command || (pattern.endsWith('.*') && command.startsWith(pattern.slice(0, -1))))

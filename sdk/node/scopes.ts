/** Families whose commands share one scope, as the gateway has them. */
const FAMILY_SCOPES: Readonly<Record<string, string>> = { input: 'input.control', app: 'app.manage' }

/** The scopes any of which allows the command: its own name, or its family's (`input.control`, `app.manage`). */
export const scopesFor = (command: string): string[] => {
  const family = FAMILY_SCOPES[command.split('.')[0] ?? '']
  return family === undefined || family === command || !command.includes('.') ? [command] : [command, family]
}

const covers = (pattern: string, scope: string): boolean =>
  pattern === '*' || pattern === scope || (pattern.endsWith('.*') && scope.startsWith(pattern.slice(0, -1)))

/** Whether one of the gateway's scopes, which are exact, allows the command. */
export const isGranted = (command: string, scopes: readonly string[]): boolean => scopesFor(command).some(scope => scopes.includes(scope))

/** Whether the machine's own list allows the command. There an entry may also be `family.*` or `*`. */
export const isAllowedLocally = (command: string, local: readonly string[]): boolean =>
  scopesFor(command).some(scope => local.some(pattern => covers(pattern, scope)))

/** The gateway's scopes as far as the machine's own list lets any command of theirs run. */
export const effectiveScopes = (granted: readonly string[], local: readonly string[]): string[] =>
  granted.filter(scope => isAllowedLocally(scope, local) || local.some(own => scopesFor(own).includes(scope)))

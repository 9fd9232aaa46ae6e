/** Directories below a plugin that change often and are many. */
const IGNORED = /(?:^|[/\\])(?:node_modules|\.git)(?:[/\\]|$)/

/** Calls `onChange` once files below the directories have changed and then been left alone, `onFailure` for what cannot be watched. Returns the undo. */
export const watchDirectories = async (
  directories: readonly string[],
  settleMs: number,
  { onChange, onFailure }: { onChange: () => void; onFailure: (error: unknown) => void },
): Promise<() => Promise<void>> => {
  const { watch } = await import('chokidar')
  let timer: NodeJS.Timeout | undefined
  const watcher = watch([...directories], {
    ignoreInitial: true,
    ignorePermissionErrors: true,
    followSymlinks: false,
    depth: 4,
    ignored: path => directories.some(directory => path.startsWith(directory) && IGNORED.test(path.slice(directory.length))),
  })
  // Too many watches for this system, for example: what is not watched is found by the next scan.
  watcher.on('error', onFailure)
  watcher.on('all', () => {
    clearTimeout(timer)
    timer = setTimeout(onChange, settleMs)
  })
  await new Promise<void>(resolve => {
    watcher.once('ready', () => {
      resolve()
    })
  })
  return async () => {
    clearTimeout(timer)
    await watcher.close()
  }
}

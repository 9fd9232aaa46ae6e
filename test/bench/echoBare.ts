/** Newline JSON by hand: the least a child process can do that answers JSON on lines. */
let kept = ''
process.stdin.setEncoding('utf8')
process.stdin.on('data', (chunk: string) => {
  const lines = (kept + chunk).split('\n')
  kept = lines.pop() ?? ''
  for (const line of lines) {
    const { id, params } = JSON.parse(line) as { id: number; params: unknown }
    process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result: params }) + '\n')
  }
})

// A worker thread's program when the gateway runs from source: a thread does not take over `--import tsx` on every
// version of Node. The argument is the URL of the file to run.
import { register } from 'tsx/esm/api'

register()
await import(process.argv[2])

/** Sets the clock of a process wrong before anything of it is loaded (see clockAhead.ts). */
const offsetMs = Number(new URL(import.meta.url).searchParams.get('ms'))
const RealDate = Date

globalThis.Date = class extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(RealDate.now() + offsetMs)
    else super(...args)
  }

  static now() {
    return RealDate.now() + offsetMs
  }
}

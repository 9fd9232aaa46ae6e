// What `npm ci` leaves ready to run: the gateway's bundle and the example plugins. The SDK builds itself before this.
import './build.mjs'
import './buildExamples.mjs'

const { recordBuilt, targets } = await import('./freshness.mjs')
for (const target of targets) await recordBuilt(target)

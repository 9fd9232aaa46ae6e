import { isIP } from 'node:net'

/** Whether a host name or address, without port, means this machine only. */
export const isLoopback = (host: string): boolean => {
  const bare = host.toLowerCase().replace(/^\[|\]$/g, '')
  if (bare === 'localhost' || bare === '::1') return true
  return isIP(bare) === 4 && bare.startsWith('127.')
}

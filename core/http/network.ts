import { isIPv6 } from 'node:net'

const PREFIX_GROUPS = 4
const GROUPS = 8

/**
 * What one subscriber has: an IPv4 address, or the first 64 bits of an IPv6 one, however it is written. Limits count
 * by it: who has a network can call from any address in it.
 */
export const networkOf = (address: string): string => {
  const bare = address.split('%')[0] ?? address
  // Addresses with an IPv4 one at their end are those of translators, where each stands for somebody else.
  if (!isIPv6(bare) || bare.includes('.')) return address
  const [head = '', tail] = bare.toLowerCase().split('::')
  const groups = (text: string): string[] => text.split(':').filter(Boolean)
  const left = groups(head)
  const right = groups(tail ?? '')
  const zeros = Array.from({ length: tail === undefined ? 0 : GROUPS - left.length - right.length }, () => '0')
  const prefix = [...left, ...zeros, ...right].slice(0, PREFIX_GROUPS).map(group => group.replace(/^0+(?=.)/, ''))
  return `${prefix.join(':')}::/64`
}

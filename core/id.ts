import { customAlphabet } from 'nanoid'

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** 62²² is a little over 130 bits: ids cannot be guessed. */
const random = customAlphabet(ALPHABET, 22)

/** A new opaque id with its type's prefix: `newId('agt')` is `agt_` and 22 letters and digits. */
export const newId = (prefix: string): string => `${prefix}_${random()}`

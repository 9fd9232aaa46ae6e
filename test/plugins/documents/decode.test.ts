import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import iconv from 'iconv-lite'
import { decodeText } from '../../../plugins/documents/decode.js'
import { builtinFormat, sniffFormat } from '../../../plugins/documents/formats.js'

const plain = { mimeType: 'application/octet-stream', html: false }

describe('the text of a file', () => {
  const texts = {
    English: 'Some plain text, of two lines.\r\nAnd another one.\n',
    'one letter': 'x',
    Czech: 'Příliš žluťoučký kůň úpěl ďábelské ódy\n',
    Chinese: '敏捷的棕色狐狸跳过了懒狗。\n第二行，还有一些文字。\n',
    'emoji and all': 'a 👍🏽 b\n',
  }
  for (const encoding of ['utf-16le', 'utf-16be', 'utf-8'])
    for (const mark of [true, false])
      it(`in ${encoding} ${mark ? 'with' : 'without'} a byte order mark is read in every language`, () => {
        for (const [language, text] of Object.entries(texts))
          assert.equal(decodeText(iconv.encode(text, encoding, { addBOM: mark }), plain), text, language)
      })

  it('in UTF-32 with a byte order mark is read', () => {
    for (const encoding of ['utf-32le', 'utf-32be'])
      assert.equal(decodeText(iconv.encode(texts.Czech, encoding, { addBOM: true }), plain), texts.Czech)
  })

  it('in a declared or an older encoding is read', () => {
    assert.equal(decodeText(iconv.encode('Größe', 'latin1'), { mimeType: 'text/plain; charset=iso-8859-1', html: false }), 'Größe')
    const russian = 'Съешь же ещё этих мягких французских булок, да выпей чаю. '.repeat(3)
    assert.equal(decodeText(iconv.encode(russian, 'windows-1251'), plain), russian)
  })

  it('is not made of what is none', () => {
    const zip = Buffer.concat([Buffer.from('PK\u0003\u0004\u0014\0\0\0'), randomBytes(1_000)])
    const numbers = Buffer.from(Uint16Array.from({ length: 1_000 }, (_, index) => index % 200).buffer)
    const padded = Buffer.concat([Buffer.from('text'), Buffer.alloc(12), Buffer.from('more text')])
    for (const bytes of [zip, numbers, padded, Buffer.from([0, 1, 2, 3, 255, 0]), Buffer.alloc(100), randomBytes(4_096)])
      assert.throws(() => decodeText(bytes, plain), /not text/)
  })
})

describe('the format of a file without an extension', () => {
  it('is what the client says, and looked for in the content when it does not know', () => {
    assert.equal(builtinFormat('', 'text/markdown; charset=utf-8'), 'markdown')
    assert.equal(builtinFormat('', 'application/octet-stream'), 'sniff')
    assert.equal(builtinFormat('', ''), 'sniff')
    assert.equal(builtinFormat('', 'application/pdf'), undefined)
    assert.equal(builtinFormat('.pdf', 'text/plain'), undefined)
  })

  it('is seen in its first lines', () => {
    assert.equal(sniffFormat('<!DOCTYPE html><p>x'), 'html')
    assert.equal(sniffFormat('\n<!-- note --><html lang="en">'), 'html')
    assert.equal(sniffFormat('<?xml version="1.0"?><html xmlns="x">'), 'html')
    assert.equal(sniffFormat('<note>x</note>'), 'text')
    assert.equal(sniffFormat(' {"a": [1]}'), 'json')
    assert.equal(sniffFormat('[draft] not JSON'), 'text')
    assert.equal(sniffFormat('#!/bin/sh\necho'), 'text')
  })
})

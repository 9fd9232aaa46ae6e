// Writes protocol.schema.json from the types in protocol.ts: `node schema.mjs`, or `node schema.mjs --check [folder]`,
// which writes nothing and fails when the file there is not what its types give.
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const here = fileURLToPath(new URL('.', import.meta.url))

/** The JSON Schema of everything that protocol.ts in `folder` exports, as text. */
function protocolSchema(folder) {
  const file = join(folder, 'protocol.ts')
  const program = ts.createProgram([file], { strict: true, target: ts.ScriptTarget.ES2023, noEmit: true, types: [] })
  const source = program.getSourceFile(file)
  const checker = program.getTypeChecker()
  const interfaces = source.statements.filter(node => ts.isInterfaceDeclaration(node) && node.typeParameters === undefined)
  const named = new Map(interfaces.map(node => [checker.getTypeAtLocation(node).symbol, node.name.text]))
  const types = new TypeReader(checker, named)
  const defs = Object.fromEntries(
    interfaces.map(node => {
      const type = checker.getTypeAtLocation(node)
      return [node.name.text, { ...types.description(type.symbol), ...types.object(type) }]
    }),
  )
  const constant = name => source.statements.flatMap(node => node.declarationList?.declarations ?? []).find(node => node.name.text === name)
  const versions = constant('PROTOCOL_VERSIONS').initializer.elements.map(element => element.text)
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: `urn:agent-gateway:plugin-protocol:${versions[0]}`,
    title: `The plugin protocol of Agent Gateway, version ${versions[0]}`,
    description: 'One line on stdin (MessageToPlugin) or stdout (MessageFromPlugin) of a plugin. PROTOCOL.md explains it.',
    anyOf: [{ $ref: '#/$defs/MessageToPlugin' }, { $ref: '#/$defs/MessageFromPlugin' }],
    $defs: {
      MessageToPlugin: message(defs, 'HostRequests', 'SharedNotifications', 'PluginRequests'),
      MessageFromPlugin: message(defs, 'PluginRequests', 'PluginNotifications', 'HostRequests'),
      RequestId: { type: ['number', 'string'], maxLength: 256 },
      RpcError: {
        description: 'Why a request failed.',
        type: 'object',
        properties: { code: { type: 'integer' }, message: { type: 'string' }, data: { $ref: '#/$defs/RpcErrorData' } },
        required: ['code', 'message'],
      },
      RpcErrorCode: types.constants(constant('RpcErrorCode')),
      ...defs,
    },
  }
}

/** A request, a notification, or an answer to a request of the other side. */
function message(defs, requests, notifications, answered) {
  const of = (list, method, part = '') => ({ $ref: `#/$defs/${list}/properties/${method.replaceAll('/', '~1')}${part}` })
  const frame = (properties, required) => ({
    type: 'object',
    properties: { jsonrpc: { const: '2.0' }, ...properties },
    required: ['jsonrpc', ...required],
  })
  const id = { $ref: '#/$defs/RequestId' }
  return {
    anyOf: [
      ...Object.keys(defs[requests].properties).map(method =>
        frame({ id, method: { const: method }, params: of(requests, method, '/properties/params') }, ['id', 'method']),
      ),
      ...Object.keys(defs[notifications].properties).map(method =>
        frame({ method: { const: method }, params: of(notifications, method) }, ['method', 'params']),
      ),
      frame({ id, result: { anyOf: Object.keys(defs[answered].properties).map(method => of(answered, method, '/properties/result')) } }, [
        ...['id', 'result'],
      ]),
      frame({ id: { anyOf: [id, { type: 'null' }] }, error: { $ref: '#/$defs/RpcError' } }, ['id', 'error']),
    ],
  }
}

/** Reads the few kinds of types that the protocol is made of, and throws on any other. */
class TypeReader {
  #checker
  #named

  constructor(checker, named) {
    this.#checker = checker
    this.#named = named
  }

  description(symbol) {
    const text = ts.displayPartsToString(symbol?.getDocumentationComment(this.#checker)).trim()
    return text === '' ? {} : { description: text.replace(/\s*\n\s*/g, ' ') }
  }

  /** An object of constants `as const`, such as the error codes. */
  constants(declaration) {
    const symbol = this.#checker.getSymbolAtLocation(declaration.name)
    const members = this.#checker.getTypeAtLocation(declaration).getProperties()
    const read = member => ({ const: this.#checker.getTypeOfSymbol(member).value, title: member.name, ...this.description(member) })
    return { ...this.description(symbol), oneOf: members.map(read) }
  }

  object(type) {
    const members = type.getProperties()
    const required = members.filter(member => (member.flags & ts.SymbolFlags.Optional) === 0).map(({ name }) => name)
    const properties = members.map(member => [
      member.name,
      { ...this.description(member), ...this.read(this.#checker.getTypeOfSymbol(member)) },
    ])
    return { type: 'object', properties: Object.fromEntries(properties), ...(required.length === 0 ? {} : { required }) }
  }

  read(type) {
    const name = this.#named.get(type.symbol)
    if (name !== undefined) return { $ref: `#/$defs/${name}` }
    if (type.flags & ts.TypeFlags.Unknown) return {}
    if (type.flags & ts.TypeFlags.Boolean) return { type: 'boolean' }
    if (type.isUnion()) return this.#union(type.types.filter(part => !(part.flags & ts.TypeFlags.Undefined)))
    if (type.isStringLiteral() || type.isNumberLiteral()) return { const: type.value }
    if (type.flags & ts.TypeFlags.String) return { type: 'string' }
    if (type.flags & ts.TypeFlags.Number) return { type: 'number' }
    if (this.#checker.isArrayType(type)) return { type: 'array', items: this.read(this.#checker.getTypeArguments(type)[0]) }
    const values = type.getStringIndexType()
    if (values)
      return values.flags & (ts.TypeFlags.Never | ts.TypeFlags.Unknown)
        ? { type: 'object' }
        : { type: 'object', additionalProperties: this.read(values) }
    if (type.flags & ts.TypeFlags.Object) return this.object(type)
    throw new Error(`schema.mjs cannot express the type ${this.#checker.typeToString(type)}: teach it, or choose a simpler type`)
  }

  #union(parts) {
    if (parts.length === 1) return this.read(parts[0])
    if (parts.every(part => part.isStringLiteral())) return { enum: parts.map(({ value }) => value) }
    const read = parts.map(part => (part.flags & ts.TypeFlags.BooleanLiteral ? { type: 'boolean' } : this.read(part)))
    if (read.every(schema => Object.keys(schema).join() === 'type')) {
      const types = [...new Set(read.map(schema => schema.type))]
      return { type: types.length === 1 ? types[0] : types }
    }
    return { anyOf: read }
  }
}

const [flag, folder = here] = process.argv.slice(2)
const target = join(resolve(folder), 'protocol.schema.json')
const text = `${JSON.stringify(protocolSchema(resolve(folder)), null, 2)}\n`
if (flag !== '--check') await writeFile(target, text)
else if ((await readFile(target, 'utf8').catch(() => '')) !== text) {
  console.error(`${target} is not what the types in protocol.ts give: run npm run schema -w sdk`)
  process.exitCode = 1
}

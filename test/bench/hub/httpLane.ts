import { connect, type Socket } from 'node:net'

export interface Answered {
  status: number
  body: unknown
}

/**
 * A caller of the REST API over one kept connection, one request at a time, with as little as that needs: it shares a
 * processor with the nodes, and must not be what is measured.
 */
export class HttpLane {
  readonly #host: string
  readonly #socket: Socket
  #received = ''
  #waiting: { resolve: (answer: Answered) => void; reject: (error: Error) => void } | undefined

  constructor(url: string) {
    const { hostname, port, host } = new URL(url)
    this.#host = host
    this.#socket = connect({ host: hostname, port: Number(port), noDelay: true })
    this.#socket.setEncoding('latin1')
    this.#socket.on('data', (text: string) => {
      this.#read(text)
    })
    this.#socket.on('error', error => this.#waiting?.reject(error))
    this.#socket.on('close', () => this.#waiting?.reject(new Error('The gateway closed the connection of a caller')))
  }

  ask(method: string, path: string, token: string, body = '', headers = ''): Promise<Answered> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject }
      const content = body === '' ? '' : `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`
      this.#socket.write(
        `${method} ${path} HTTP/1.1\r\nHost: ${this.#host}\r\nAuthorization: Bearer ${token}\r\n${headers}${content}\r\n${body}`,
      )
    })
  }

  close(): void {
    this.#waiting = undefined
    this.#socket.destroy()
  }

  #read(text: string): void {
    this.#received += text
    const end = this.#received.indexOf('\r\n\r\n')
    if (end === -1) return
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(this.#received)?.[1] ?? NaN)
    if (Number.isNaN(length)) throw new Error(`An answer without a length: ${this.#received.slice(0, end)}`)
    if (this.#received.length < end + 4 + length) return
    const answer = {
      status: Number(this.#received.slice(9, 12)),
      body: JSON.parse(this.#received.slice(end + 4, end + 4 + length)) as unknown,
    }
    this.#received = ''
    this.#waiting?.resolve(answer)
  }
}

const PNG_SIGNATURE = '89504e470d0a1a0a'

/** Width and height in pixels of a PNG or JPEG; nothing of what is neither. */
export const imageSize = (image: Buffer): { width?: number; height?: number } => {
  if (image.length >= 24 && image.toString('hex', 0, 8) === PNG_SIGNATURE)
    return { width: image.readUInt32BE(16), height: image.readUInt32BE(20) }
  return image.length > 4 && image.readUInt16BE(0) === 0xffd8 ? jpegSize(image) : {}
}

/** Segments follow one another, each with its length; the frame header (0xFFC0 to 0xFFCF, but for three) has the size. */
const jpegSize = (image: Buffer): { width?: number; height?: number } => {
  for (let at = 2; at + 9 < image.length; at += 2 + image.readUInt16BE(at + 2)) {
    const marker = image.readUInt16BE(at)
    const isFrame = marker >= 0xffc0 && marker <= 0xffcf && ![0xffc4, 0xffc8, 0xffcc].includes(marker)
    if (isFrame) return { height: image.readUInt16BE(at + 5), width: image.readUInt16BE(at + 7) }
  }
  return {}
}

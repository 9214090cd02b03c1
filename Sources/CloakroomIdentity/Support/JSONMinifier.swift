/// The bytes of a JSON document without the white space between its tokens. All other bytes are unchanged.
enum JSONMinifier {
    /// - Parameter document: A document that ``JSONValue/init(document:)`` accepts.
    static func make(_ document: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(document.count)
        var isInString = false
        var isEscaped = false
        for byte in document {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
            } else {
                switch byte {
                case 0x20, 0x09, 0x0a, 0x0d: continue
                case UInt8(ascii: "\""): isInString = true
                default: break
                }
            }
            result.append(byte)
        }
        return result
    }
}

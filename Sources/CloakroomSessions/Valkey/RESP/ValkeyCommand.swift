import NIOCore

/// A command in its wire format: an array of strings.
struct ValkeyCommand: Sendable {
    enum Part: Sendable, ExpressibleByStringLiteral, ExpressibleByStringInterpolation {
        case text(String)
        case bytes([UInt8])
        case integer(Int64)

        init(stringLiteral value: String) {
            self = .text(value)
        }
    }

    /// The command's name, for logs.
    let name: String
    /// The encoded command. It may hold secrets and is never printed.
    let encoded: ByteBuffer
    /// The hash slot of its keys; `nil` for a command without keys, which any server may execute.
    let slot: UInt16?
    /// The maximum ``RESPValue/size`` of the reply. The connection ends with a larger one.
    var replyLimit = Int.max

    /// - Parameter slot: The hash slot of all keys among the parts.
    init(_ name: String, slot: UInt16? = nil, _ parts: [Part]) {
        self.name = name
        self.slot = slot
        var buffer = ByteBuffer()
        buffer.reserveCapacity(
            parts.reduce(32 + name.utf8.count) { sum, part in
                switch part {
                case .text(let text): sum + text.utf8.count + 16
                case .bytes(let bytes): sum + bytes.count + 16
                case .integer: sum + 32
                }
            })
        buffer.writeString("*\(parts.count + 1)\r\n$\(name.utf8.count)\r\n\(name)\r\n")
        for part in parts {
            switch part {
            case .text(let text): Self.write(text.utf8, to: &buffer)
            case .integer(let number): Self.write(String(number).utf8, to: &buffer)
            case .bytes(let bytes): Self.write(bytes, to: &buffer)
            }
        }
        encoded = buffer
    }

    private static func write(_ part: some Collection<UInt8>, to buffer: inout ByteBuffer) {
        buffer.writeString("$\(part.count)\r\n")
        buffer.writeBytes(part)
        buffer.writeString("\r\n")
    }

    init(_ name: String, _ parts: Part...) {
        self.init(name, parts)
    }

    /// A command with a key before its other arguments.
    init(_ name: String, key: String, _ parts: Part...) {
        self.init(name, slot: HashSlot.slot(of: key), [.text(key)] + parts)
    }
}

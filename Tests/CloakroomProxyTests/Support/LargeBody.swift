import NIOCore
import TestSupport

/// A body that is larger than all buffers on a path through the gateway.
enum LargeBody {
    /// The number of bytes.
    static let total = 64 << 20
    /// The capacity of all buffers on the path: four socket buffers, each up to some megabytes.
    static let bound = 40 << 20

    /// The piece that the body repeats: a megabyte in which no two sections are equal.
    static let megabyte: ByteBuffer = {
        var generator = SeededGenerator(seed: 7)
        var bytes = ByteBuffer()
        for _ in 0..<(1 << 17) { bytes.writeInteger(generator.next()) }
        return bytes
    }()

    /// Whether these are the bytes of the body, each once and in order.
    static func isWhole(_ body: ByteBuffer) -> Bool {
        var body = body
        guard body.readableBytes == total else { return false }
        while let part = body.readSlice(length: 1 << 20) {
            guard part == megabyte else { return false }
        }
        return true
    }
}

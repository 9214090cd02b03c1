import CZlib

/// Decompresses a file of one or several gzip members (RFC 1952 §2.2), in parts of at most 64 KiB. A class, because zlib
/// keeps the address of its state.
final class GzipReader {
    struct Defect: Error {
        let message: String
    }

    private var stream = z_stream()
    private var output = [UInt8](repeating: 0, count: 65_536)
    /// Whether a member has ended and no other one has begun.
    private var isAtEnd = false

    init() throws(Defect) {
        // 15 + 16: the largest window, in the format of gzip.
        guard inflateInit2_(&stream, 15 + 16, ZLIB_VERSION, CInt(MemoryLayout<z_stream>.size)) == Z_OK else {
            throw Defect(message: "no memory to decompress it")
        }
    }

    deinit { inflateEnd(&stream) }

    /// Decompresses the next bytes of the file.
    /// - Throws: ``Defect`` if they are not valid.
    func read(_ bytes: [UInt8], _ body: ([UInt8]) -> Void) throws(Defect) {
        var (bytes, position) = (bytes, 0)
        var isFull = false
        while position < bytes.count || isFull {
            if isAtEnd {
                // Tapes and some tools fill the last block with zeros, as gzip itself permits.
                position = bytes[position...].firstIndex { $0 != 0 } ?? bytes.count
                guard position < bytes.count else { return }
                inflateReset(&stream)
                isAtEnd = false
            }
            // zlib has no interface without pointers.
            let (status, room, left) = bytes.withUnsafeMutableBufferPointer { source in
                output.withUnsafeMutableBufferPointer { target in
                    stream.next_in = source.baseAddress.map { $0 + position }
                    stream.avail_in = UInt32(source.count - position)
                    (stream.next_out, stream.avail_out) = (target.baseAddress, UInt32(target.count))
                    return (inflate(&stream, Z_NO_FLUSH), Int(stream.avail_out), Int(stream.avail_in))
                }
            }
            guard status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR else {
                throw Defect(message: "is not valid gzip (decompress it, and pass the result)")
            }
            position = bytes.count - left
            body(Array(output[..<(output.count - room)]))
            isAtEnd = status == Z_STREAM_END
            isFull = room == 0 && !isAtEnd
        }
    }

    /// The file has ended.
    /// - Throws: ``Defect`` if a member is not complete.
    func finish() throws(Defect) {
        guard isAtEnd else { throw Defect(message: "ends within its gzip data (it is cut: copy it again)") }
    }
}

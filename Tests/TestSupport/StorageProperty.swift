package import NIOCore

/// What a peer sends in a test of storage: a start, and units of the same size without end.
package struct PeerStream {
    let bytes: [UInt8]
    let start: Int
    /// Size of a unit in bytes.
    package let unit: Int

    /// Number of bytes of the units; a receiver that keeps what it has read exceeds any bound with far fewer.
    private static let size = 160 << 10

    /// - Parameters:
    ///   - start: Is sent once, such as a connection preface.
    ///   - unit: Creates the unit with an index. All have the same size.
    package init(start: [UInt8] = [], unit: (Int) -> [UInt8]) {
        let first = unit(0)
        var bytes = start + first
        bytes.reserveCapacity(start.count + Self.size + 3 * first.count)
        var index = 1
        while bytes.count < Self.size + 2 * first.count || index < 3 {
            bytes += unit(index)
            index += 1
        }
        self.bytes = bytes
        self.start = start.count
        self.unit = first.count
    }

    package init(start: String = "", _ unit: String) {
        let unit = Array(unit.utf8)
        self.init(start: Array(start.utf8)) { _ in unit }
    }
}

/// Feeds receivers with streams in reads of many sizes, and checks the storage that they keep after each read.
///
/// Used for every buffer that a peer fills: the bound applies to the capacity, not to the unread bytes, and for all
/// places in which a read can end.
package enum StorageProperty {
    /// How a stream is divided into reads, and how much of it is read.
    struct Split {
        let first: Int
        let size: Int
        let bytes: Int
    }

    /// A read that exceeded the bound.
    package struct Excess: Error, CustomStringConvertible {
        package let description: String
    }

    /// Bytes of a read buffer that is larger than what was read.
    private static let largeRead = 65_536
    /// The rule of buffers: 4 KiB, or four times the unread bytes.
    package static func ordinaryBound(unread: Int) -> Int { max(4_096, 4 * unread) }

    /// - Parameters:
    ///   - bound: Maximum storage after a read; by default that of an unread unit.
    ///   - reads: Maximum number of reads of a split.
    ///   - receiver: Creates a receiver, which returns its storage after a read, or `nil` if it accepts no more.
    /// - Throws: ``Excess``, and what the receiver throws.
    package static func check(
        _ stream: PeerStream, bound: Int? = nil, reads: Int = 400,
        receiver: () throws -> (ByteBuffer) throws -> Int?
    ) throws {
        let bound = bound ?? ordinaryBound(unread: stream.unit)
        for split in splits(of: stream, bound: bound) {
            let receive = try receiver()
            var position = 0
            var count = 0
            while position < split.bytes, count < reads {
                let end = min(position + (position == 0 ? split.first : split.size), stream.bytes.count)
                // Every other read has a buffer of which it fills only a part, as those of a socket.
                var read = ByteBuffer()
                read.reserveCapacity(count % 2 == 0 ? end - position : max(end - position, largeRead))
                read.writeBytes(stream.bytes[position..<end])
                position = end
                count += 1
                guard let storage = try receive(read) else { break }
                guard storage <= bound else {
                    throw Excess(
                        description: "\(storage) bytes of storage, at most \(bound) expected, after \(position) bytes"
                            + " in \(count) reads of \(split.size) after one of \(split.first)")
                }
            }
        }
    }

    /// Small, awkward, prime and full reads, and reads that all end in the same place of a unit, for all places of a
    /// small unit and many of a large one.
    ///
    /// Some splits have the whole stream, which finds a receiver that keeps a small part of each unit. Where a read ends
    /// decides whether a receiver keeps all that it has read, which exceeds the bound after a few times as many bytes.
    private static func splits(of stream: PeerStream, bound: Int) -> [Split] {
        let sizes = [1, 2, 3, 5, 7, 13, 64, 127, 1_021, 1_024, 4_093, 4_096, 4_097, 16_384, 16_393, 65_521, 65_536]
        let whole = stream.bytes.count
        func some(_ size: Int) -> Int { min(whole, stream.start + max(4 * bound, 16_384) + 2 * size) }
        var offsets = Array(1..<min(stream.unit, 40))
        if stream.unit > 40 {
            let unit = stream.unit
            offsets = [1, 2, 9, 10, 13, unit / 4, unit / 2, unit - 100, unit - 3, unit - 2, unit - 1]
            offsets.removeAll { $0 < 1 || $0 >= unit }
        }
        return sizes.map { Split(first: $0, size: $0, bytes: [64, 1_024, 65_536].contains($0) ? whole : some($0)) }
            + offsets.flatMap { offset in
                [700, 8_192].map { size in
                    let size = max(1, size / stream.unit) * stream.unit
                    return Split(first: stream.start + offset, size: size, bytes: some(size))
                }
            }
    }
}

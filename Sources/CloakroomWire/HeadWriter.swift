public import NIOCore

/// Appends the parts of a message head to memory that was reserved for all of them.
///
/// A head has about thirty parts. As separate writes into a buffer, each of which reserves, checks ownership and converts
/// indices, they took 5,000 instructions a request; as copies into reserved memory they take 1,500.
///
/// The only ways to obtain a writer are ``NIOCore/ByteBuffer/writeHead(reserving:_:)`` and the initializer of an array. It is
/// not copyable, so it does not outlive that call. Each write is bounded by the capacity; parts that do not fit are counted and not written.
public struct HeadWriter: ~Copyable {
    @usableFromInline let start: UnsafeMutableRawPointer
    @usableFromInline let capacity: Int
    /// The number of bytes of all parts; more than ``capacity`` if some were not written. Set back, it takes parts back.
    @usableFromInline package var count = 0

    @inlinable
    init(_ room: UnsafeMutableRawBufferPointer, start: UnsafeMutableRawPointer) {
        self.start = start
        capacity = room.count
    }

    @inlinable @inline(__always)
    mutating func append(_ part: UnsafeRawBufferPointer) {
        let end = count &+ part.count
        // The lengths are those of memory that exists, so their sum does not overflow.
        if end <= capacity, let source = part.baseAddress {
            (start + count).copyMemory(from: source, byteCount: part.count)
        }
        count = end
    }

    /// Appends bytes.
    @inlinable @inline(__always)
    public mutating func append(_ bytes: RawSpan) {
        bytes.withUnsafeBytes { append($0) }
    }

    /// Appends a part of a head.
    @inlinable @inline(__always)
    public mutating func append(_ bytes: RawSpan, _ range: ByteRange) {
        append(bytes.extracting(range.start..<range.end))
    }

    /// Appends bytes.
    @inlinable @inline(__always)
    public mutating func append(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { append($0) }
    }

    /// Appends a constant; as it is inlined, a short one is stored as a few words.
    @inlinable @inline(__always)
    public mutating func append(_ text: StaticString) {
        text.withUTF8Buffer { append(UnsafeRawBufferPointer($0)) }
    }

    /// Appends text.
    public mutating func append(text: String) {
        append(text.utf8.span.bytes)
    }

    /// Appends the magnitude of a number in decimal, without a string: two with interpolations took most of the 4,200
    /// instructions of a local response's head.
    public mutating func append(decimal value: Int) {
        // Digits are produced from the right; 20 of them hold any 64-bit number.
        withUnsafeTemporaryAllocation(byteCount: 20, alignment: 1) { digits in
            var (rest, first) = (value.magnitude, digits.count)
            repeat {
                first -= 1
                digits[first] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            } while rest > 0
            append(UnsafeRawBufferPointer(rebasing: digits[first...]))
        }
    }

    /// Appends sixteen lower-case hexadecimal digits.
    @inlinable @inline(__always)
    public mutating func appendHex(_ value: UInt64) {
        // Eight digits at a time.
        let digits = (
            Byte.hexDigits(UInt32(truncatingIfNeeded: value >> 32)).bigEndian,
            Byte.hexDigits(UInt32(truncatingIfNeeded: value)).bigEndian
        )
        withUnsafeBytes(of: digits) { append($0) }
    }

    /// Copies the lines of all fields that are not stripped, each run of adjacent lines at once.
    /// - Parameters:
    ///   - bytes: The head that the fields were parsed from.
    ///   - end: Offset of the empty line.
    public mutating func append(fields: [FieldSlice], of bytes: RawSpan, end: Int) {
        let count = fields.count
        guard count > 0 else { return }
        var runStart = Int(fields[0].nameStart)
        var index = 0
        while index < count {
            let field = fields[index]
            index += 1
            guard field.isStripped else { continue }
            let start = Int(field.nameStart)
            if start > runStart { append(bytes.extracting(runStart..<start)) }
            runStart = index < count ? Int(fields[index].nameStart) : end
        }
        if end > runStart { append(bytes.extracting(runStart..<end)) }
    }
}

extension ByteBuffer {
    /// Writes a head at the end of the buffer.
    /// - Parameters:
    ///   - size: The expected length in bytes. If the head is longer, it is written again, into enough memory.
    ///   - write: Appends the parts. Called again if they did not fit, and must then append the same number of bytes.
    @inlinable
    public mutating func writeHead(reserving size: Int, _ write: (inout HeadWriter) -> Void) {
        var nothing: Void = ()
        writeHead(reserving: size, from: &nothing) { writer, _ in write(&writer) }
    }

    /// Writes a head at the end of the buffer.
    /// - Parameters:
    ///   - source: What is written, for `write`. A captured `inout` value would be copied for each call that borrows it.
    ///   - size: As above.
    ///   - write: As above.
    @inlinable
    public mutating func writeHead<Source>(
        reserving size: Int, from source: inout Source, _ write: (inout HeadWriter, inout Source) -> Void
    ) {
        var needed = max(size, 1)
        var isComplete = false
        while !isComplete {
            writeWithUnsafeMutableBytes(minimumWritableBytes: needed) { room in
                // The memory has at least one byte, and so an address.
                guard let start = room.baseAddress else { return 0 }
                var writer = HeadWriter(room, start: start)
                write(&writer, &source)
                needed = writer.count
                isComplete = needed <= room.count
                return isComplete ? needed : 0
            }
        }
    }
}

extension [UInt8] {
    /// Bytes that are written as those of a head, without a buffer: half of the allocations, and no copy.
    /// - Parameters: As of ``NIOCore/ByteBuffer/writeHead(reserving:from:_:)``.
    @inlinable
    public init<Source>(
        reserving size: Int, from source: inout Source, _ write: (inout HeadWriter, inout Source) -> Void
    ) {
        self = []
        var needed = Swift.max(size, 1)
        while count < needed {
            self = Self(unsafeUninitializedCapacity: needed) { room, written in
                guard let start = room.baseAddress else { return }
                var writer = HeadWriter(UnsafeMutableRawBufferPointer(room), start: UnsafeMutableRawPointer(start))
                write(&writer, &source)
                needed = writer.count
                written = needed <= room.count ? needed : 0
            }
        }
    }
}

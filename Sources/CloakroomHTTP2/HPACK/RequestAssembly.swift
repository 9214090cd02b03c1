import CloakroomWire

/// Combines the lines of one header block to a request head or a trailer section (RFC 9113 §8.1, §8.3).
///
/// The decoder writes each line after ``end`` and then passes its description; the assembly keeps it by moving the end,
/// joins it with another one, or drops it. After an error no line is kept, and the decoder only maintains its table.
struct RequestAssembly {
    /// What is wrong with the block so far. A malformed request is not reported as too large.
    enum Verdict: Equatable {
        case valid
        case tooLarge(WireError)
        case malformed
    }

    /// The lines of the block are complete up to this position.
    private(set) var end = 0
    private(set) var verdict = Verdict.valid
    /// The properties of the request, valid at the end of the block.
    private(set) var request = RequestBlock()
    private(set) var method = ByteRange(start: 0, count: 0)
    private(set) var target = ByteRange(start: 0, count: 0)
    /// Whether cookie fields have to be joined that are not next to each other.
    private(set) var hasScatteredCookies = false

    private let isTrailer: Bool
    private let limits: HeadLimits
    /// Whether a field has been taken that is not a pseudo-field.
    private var isInFields: Bool
    /// The pseudo-fields so far, one bit for each role.
    private var pseudoFields: UInt16 = 0
    private var scheme = ByteRange(start: 0, count: 0)
    private var authority = ByteRange(start: 0, count: 0)
    private var path = ByteRange(start: 0, count: 0)
    private var protocolName = ByteRange(start: 0, count: 0)
    private var hasHost = false
    private var cookieCount = 0
    private var isLastCookieEmpty = false
    /// The number of cookie fields that are not the only one in the index.
    private var scatteredCookies = 0

    init(limits: HeadLimits, isTrailer: Bool = false) {
        self.limits = limits
        self.isTrailer = isTrailer
        isInFields = isTrailer
    }

    @inline(__always) var keepsLines: Bool { verdict == .valid }

    /// The maximum of ``end``, which leaves room for the empty line.
    @inline(__always) var maxEnd: Int { limits.head - 2 }

    /// The maximum number of bytes of the target.
    @inline(__always) var maxTarget: Int { limits.target }

    // MARK: - Lines

    /// Takes the line that begins at ``end`` if lines are kept, otherwise only its role.
    @inline(__always)
    mutating func takeOrDrop(_ line: FieldLine, in room: inout MutableSpan<UInt8>, fields: inout [FieldSlice]) {
        if keepsLines { take(line, in: &room, fields: &fields) } else { takeDropped(line.role) }
    }

    /// Takes the line that begins at ``end``.
    @inline(__always)
    mutating func take(_ line: FieldLine, in room: inout MutableSpan<UInt8>, fields: inout [FieldSlice]) {
        if line.role == .plain, isInFields, !isTrailer {
            append(line, to: &fields)
        } else {
            takeOther(line, in: &room, fields: &fields)
        }
    }

    /// Takes a line that is not kept: only its role counts.
    mutating func takeDropped(_ role: LineRole) {
        if role == .malformed { return reject(.malformed) }
        guard role.isPseudoField else { return isInFields = true }
        insertPseudoField(role)
    }

    /// Drops the lines kept so far and all further ones.
    mutating func reject(_ newVerdict: Verdict) {
        guard verdict != .malformed else { return }
        guard verdict == .valid || newVerdict == .malformed else { return }
        verdict = newVerdict
        end = 0
    }

    private mutating func takeOther(
        _ line: FieldLine, in room: inout MutableSpan<UInt8>, fields: inout [FieldSlice]
    ) {
        if line.role == .malformed { return reject(.malformed) }
        if line.role.isPseudoField { return takePseudoField(line) }
        if isTrailer {
            // `te` is a connection-specific field, and only in a head an exception (RFC 9113 §8.2.2).
            return line.field == .te ? reject(.malformed) : append(line, to: &fields)
        }
        guard beginFields(in: &room, fields: &fields) else { return }
        switch line.role {
        case .host: takeHost(line, in: room, fields: &fields)
        case .cookie: takeCookie(line, in: &room, fields: &fields)
        case .priority:
            PriorityField.apply(
                room.span, from: end + line.valueOffset, count: Int(line.valueCount), to: &request)
            append(line, to: &fields)
        default: append(line, to: &fields)
        }
    }

    @inline(__always)
    private mutating func append(_ line: FieldLine, to fields: inout [FieldSlice]) {
        guard fields.count - scatteredCookies < limits.fields else { return reject(.tooLarge(.tooManyFields)) }
        fields.append(
            FieldSlice(
                nameStart: end, nameCount: Int(line.nameCount), valueStart: end + line.valueOffset,
                valueCount: Int(line.valueCount), name: line.field))
        end += line.count
    }

    // MARK: - Fields that are combined

    /// A `host` field equals `:authority` and is then redundant (RFC 9113 §8.3.1).
    private mutating func takeHost(_ line: FieldLine, in room: borrowing MutableSpan<UInt8>, fields: inout [FieldSlice])
    {
        guard hasPseudoField(.authority) else {
            hasHost = true
            return append(line, to: &fields)
        }
        let bytes = room.span
        guard Int(line.valueCount) == authority.count,
            bytes.equals(bytes, at: end + line.valueOffset, otherStart: authority.start, count: authority.count)
        else { return reject(.malformed) }
    }

    /// Cookie fields are one field in HTTP/1.1 (RFC 9113 §8.2.3). One that follows another is joined at once.
    private mutating func takeCookie(
        _ line: FieldLine, in room: inout MutableSpan<UInt8>, fields: inout [FieldSlice]
    ) {
        cookieCount += 1
        isLastCookieEmpty = line.valueCount == 0
        guard let last = fields.indices.last, fields[last].name == .cookie else {
            if cookieCount > 1 {
                scatteredCookies += 1
                hasScatteredCookies = true
            }
            return append(line, to: &fields)
        }
        room[end - 2] = UInt8(ascii: ";")
        room[end - 1] = UInt8(ascii: " ")
        let valueCount = Int(line.valueCount)
        room.move(from: end + line.valueOffset, count: valueCount + 2, to: end)
        fields[last].valueCount += UInt16(truncatingIfNeeded: valueCount + 2)
        end += valueCount + 2
    }

    // MARK: - Pseudo-fields (RFC 9113 §8.3.1)

    @inline(__always)
    private func hasPseudoField(_ role: LineRole) -> Bool {
        pseudoFields & 1 << UInt16(role.rawValue) != 0
    }

    /// Each pseudo-field occurs once, and before other fields.
    private mutating func insertPseudoField(_ role: LineRole) {
        guard !isInFields, !hasPseudoField(role) else { return reject(.malformed) }
        pseudoFields |= 1 << UInt16(role.rawValue)
    }

    private mutating func takePseudoField(_ line: FieldLine) {
        insertPseudoField(line.role)
        guard keepsLines else { return }
        let value = ByteRange(start: end + line.valueOffset, count: Int(line.valueCount))
        switch line.role {
        case .method: method = value
        case .scheme: scheme = value
        case .authority: authority = value
        case .path: path = value
        default: protocolName = value
        }
        end += line.count
    }

    /// Evaluates the pseudo-fields before the first field, or at the end of a block without fields.
    /// - Returns: Whether the block is still valid.
    private mutating func beginFields(in room: inout MutableSpan<UInt8>, fields: inout [FieldSlice]) -> Bool {
        guard !isInFields else { return true }
        isInFields = true
        guard setTarget(in: &room), isMethod(room.span), isTarget(room.span) else {
            reject(.malformed)
            return false
        }
        guard target.count <= limits.target else {
            reject(.tooLarge(.targetTooLong))
            return false
        }
        guard hasPseudoField(.authority) else { return true }
        guard fields.count < limits.fields else {
            reject(.tooLarge(.tooManyFields))
            return false
        }
        let nameCount = 10
        fields.append(
            FieldSlice(
                nameStart: authority.start - nameCount - 2, nameCount: nameCount, valueStart: authority.start,
                valueCount: authority.count, name: .host))
        return true
    }

    /// Determines the target.
    /// - Returns: Whether the combination of the pseudo-fields is valid.
    private mutating func setTarget(in room: inout MutableSpan<UInt8>) -> Bool {
        guard hasPseudoField(.method) else { return false }
        let isConnect = room.span.matches("CONNECT", at: method.start, count: method.count)
        let isTunnel = hasPseudoField(.protocolName)
        if isConnect, !isTunnel {
            // Plain CONNECT has neither scheme nor path (RFC 9113 §8.5). It is rejected later, as in HTTP/1.1.
            target = authority
            return hasPseudoField(.authority) && !hasPseudoField(.scheme) && !hasPseudoField(.path)
        }
        // Extended CONNECT has all pseudo-fields of a request (RFC 8441 §4).
        guard !isTunnel || (isConnect && hasPseudoField(.authority)) else { return false }
        guard hasValidScheme(room.span), hasValidPath(room.span) else { return false }
        target = path
        guard isTunnel else { return true }
        let isWebSocket = room.span.matches("websocket", at: protocolName.start, count: protocolName.count)
        request.tunnel = isWebSocket ? .webSocket : .other
        // It is forwarded as an HTTP/1.1 upgrade, which uses GET (RFC 6455 §4.1).
        let get: InlineArray<7, UInt8> = [0x47, 0x45, 0x54, 0x20, 0x20, 0x20, 0x20]
        for index in get.indices { room[method.start + index] = get[index] }
        method.count = 3
        return true
    }

    private func hasValidScheme(_ bytes: Span<UInt8>) -> Bool {
        hasPseudoField(.scheme)
            && (bytes.matches("https", at: scheme.start, count: scheme.count)
                || bytes.matches("http", at: scheme.start, count: scheme.count))
    }

    private func hasValidPath(_ bytes: Span<UInt8>) -> Bool {
        guard hasPseudoField(.path), path.count > 0 else { return false }
        if bytes[path.start] == UInt8(ascii: "/") { return true }
        return bytes.matches("*", at: path.start, count: path.count)
            && bytes.matches("OPTIONS", at: method.start, count: method.count)
    }

    private func isMethod(_ bytes: Span<UInt8>) -> Bool {
        guard method.count > 0, method.count <= 32 else { return false }
        for index in method.start..<method.end where !Byte.isToken(bytes[index]) { return false }
        return true
    }

    private func isTarget(_ bytes: Span<UInt8>) -> Bool {
        for index in target.start..<target.end where bytes[index] <= 0x20 || bytes[index] == 0x7f { return false }
        return target.count > 0
    }

    // MARK: - The end of the block

    /// Checks what can only be known at the end.
    mutating func finish(in room: inout MutableSpan<UInt8>, fields: inout [FieldSlice]) {
        guard keepsLines, !isTrailer, beginFields(in: &room, fields: &fields) else { return }
        guard hasPseudoField(.authority) || hasHost else { return reject(.malformed) }
        // A value must not end with white space, and "; " would be its end.
        if cookieCount > 1, isLastCookieEmpty { reject(.malformed) }
    }
}

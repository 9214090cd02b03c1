package import CloakroomWire
import NIOCore

/// What a request for a file gets (RFC 9110 §13.2.2).
package enum FileResponse {
    case full(FileEntry.Variant)
    /// A part of the file without a coding.
    case part(FileEntry.Variant, Range<Int>)
    /// 304.
    case notModified(FileEntry.Variant)
    /// 412.
    case preconditionFailed
    /// 416; the size of the file.
    case unsatisfiable(Int)

    /// Decides by the fields of a request. The cost is linear in their length.
    ///
    /// Files have no modification date, so conditions on it do not apply (RFC 9110 §13.1.3, §13.1.4): times of files
    /// differ between servers, and are equal for different contents where a build sets them to a constant.
    package static func decide(_ entry: FileEntry, _ head: borrowing RequestHead, isGET: Bool) -> FileResponse {
        let bytes = head.bytes.readableBytesUInt8Span
        let fields = FileFields(head.fields, bytes, hasCodings: entry.variants.count > 1)
        let plain = entry.variants[0]
        var variant = plain
        if let weights = fields.weights {
            for other in entry.variants.dropFirst() where weights.prefers(other, to: variant) { variant = other }
        }
        // Several ranges, and repeated fields, get all of the file (RFC 9110 §14.2).
        var part: PartRange?
        if isGET, case .value(let range) = fields.range { part = PartRange(range, bytes, size: plain.size) }
        switch fields.ifRange {
        case .absent: break
        case .value(let tag) where isTag(tag, bytes, plain.tag, isWeak: false): break
        case .value, .multiple: part = nil
        }
        if part != nil { variant = plain }
        guard fields.ifMatch.isEmpty || lists(fields.ifMatch, bytes, variant.tag, isWeak: false) else {
            return .preconditionFailed
        }
        if lists(fields.ifNoneMatch, bytes, variant.tag, isWeak: true) { return .notModified(variant) }
        switch part {
        case .bytes(let range): return .part(plain, range)
        case .unsatisfiable: return .unsatisfiable(plain.size)
        case nil: return .full(variant)
        }
    }

    /// Whether lists of entity tags have one (RFC 9110 §13.1.1, §13.1.2). Tags with commas are of other servers.
    private static func lists(_ fields: [ByteRange], _ bytes: Span<UInt8>, _ tag: [UInt8], isWeak: Bool) -> Bool {
        for field in fields {
            var members = ListTokenIterator(field)
            while let member = members.next(bytes) {
                if ASCII.equals(bytes, member, "*") || isTag(member, bytes, tag, isWeak: isWeak) { return true }
            }
        }
        return false
    }

    /// Compares entity tags (RFC 9110 §8.8.3.2).
    private static func isTag(_ text: ByteRange, _ bytes: Span<UInt8>, _ tag: [UInt8], isWeak: Bool) -> Bool {
        // Tags of files are in lower case, except their `W`.
        if ASCII.equals(bytes, text, tag) { return true }
        return isWeak && text.count == tag.count + 2 && bytes[text.start] == UInt8(ascii: "W")
            && bytes[text.start + 1] == UInt8(ascii: "/")
            && ASCII.equals(bytes, ByteRange(start: text.start + 2, count: tag.count), tag)
    }
}

/// The fields of a request that decide what it gets of a file, from one pass over all of them.
private struct FileFields {
    /// `nil` without `Accept-Encoding`, and for a file without codings.
    var weights: CodingWeights?
    var range = SingletonField.absent
    var ifRange = SingletonField.absent
    var ifMatch: [ByteRange] = []
    var ifNoneMatch: [ByteRange] = []

    init(_ fields: [FieldSlice], _ bytes: Span<UInt8>, hasCodings: Bool) {
        for field in fields {
            let (name, value) = (field.nameRange, field.valueRange)
            switch name.count {
            case 5 where ASCII.equals(bytes, name, "range"): range.add(value)
            case 8 where ASCII.equals(bytes, name, "if-range"): ifRange.add(value)
            case 8 where ASCII.equals(bytes, name, "if-match"): ifMatch.append(value)
            case 13 where ASCII.equals(bytes, name, "if-none-match"): ifNoneMatch.append(value)
            case 15 where hasCodings && ASCII.equals(bytes, name, "accept-encoding"):
                if weights == nil { weights = CodingWeights() }
                weights?.read(value, bytes)
            default: break
            }
        }
    }
}

/// One range of bytes (RFC 9110 §14.1.2).
private enum PartRange {
    case bytes(Range<Int>)
    case unsatisfiable

    /// - Parameter size: That of the file. An empty one has no ranges.
    /// - Returns: `nil` for several ranges, another unit, and malformed values, which are ignored.
    init?(_ field: ByteRange, _ bytes: Span<UInt8>, size: Int) {
        let unit = ByteRange(start: field.start, count: min(6, field.count))
        let dash = FieldScan.first(UInt8(ascii: "-"), in: bytes, from: unit.end, to: field.end)
        guard size > 0, ASCII.equals(bytes, unit, "bytes="), dash < field.end else { return nil }
        // Numbers beyond the size are limited, so they do not overflow.
        let first = Byte.number(bytes.extracting(unit.end..<dash), atMost: .max / 2)
        let last = Byte.number(bytes.extracting((dash + 1)..<field.end), atMost: .max / 2)
        guard first != nil || dash == unit.end, last != nil || dash + 1 == field.end else { return nil }
        switch (first, last) {
        case (nil, nil): return nil
        case (nil, let suffix?): self = suffix == 0 ? .unsatisfiable : .bytes(max(size - suffix, 0)..<size)
        case (let first?, let last):
            if let last, last < first { return nil }
            self = first < size ? .bytes(first..<min((last ?? size - 1) + 1, size)) : .unsatisfiable
        }
    }
}

/// The weights of content codings in `Accept-Encoding` (RFC 9110 §12.5.3), in thousandths.
private struct CodingWeights {
    private static let names = (ContentCoding.allCases.map(\.rawValue) + ["*"]).map { Array($0.utf8) }
    /// The weights of ``names``; `nil` for one that is not listed.
    private var weights = [Int?](repeating: nil, count: names.count)
    /// How many more members are read. Browsers list four.
    private var left = 16

    mutating func read(_ field: ByteRange, _ bytes: Span<UInt8>) {
        var members = ListTokenIterator(field)
        while left > 0, let member = members.next(bytes) {
            left -= 1
            let end = FieldScan.first(UInt8(ascii: ";"), in: bytes, from: member.start, to: member.end)
            let name = FieldScan.trimmed(bytes, member.start..<end)
            let range = ByteRange(start: name.lowerBound, count: name.count)
            let weight = end < member.end ? Self.weight(bytes, FieldScan.trimmed(bytes, (end + 1)..<member.end)) : 1_000
            for index in weights.indices where ASCII.equals(bytes, range, Self.names[index]) { weights[index] = weight }
        }
    }

    /// `q=` and a number with at most three decimals; 0 for anything else.
    private static func weight(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Int {
        let start = ByteRange(start: range.lowerBound, count: min(2, range.count))
        guard (3...7).contains(range.count), ASCII.equals(bytes, start, "q=") else { return 0 }
        var (value, unit) = (0, 1_000)
        for index in start.end..<range.upperBound where bytes[index] != UInt8(ascii: ".") {
            guard let digit = Byte.number(bytes.extracting(index..<(index + 1)), atMost: 9) else { return 0 }
            value += digit * unit
            unit /= 10
        }
        return min(value, 1_000)
    }

    /// Any coding that is listed precedes no coding, which is always acceptable unless it is listed with 0.
    private func weight(of coding: ContentCoding) -> Int {
        let others = weights[Self.names.count - 1]
        if let index = ContentCoding.allCases.firstIndex(of: coding), let weight = weights[index] { return weight }
        return coding == .identity ? (others == 0 ? 0 : 1) : others ?? 0
    }

    func prefers(_ one: FileEntry.Variant, to other: FileEntry.Variant) -> Bool {
        let (mine, theirs) = (weight(of: one.coding), weight(of: other.coding))
        return mine > 0 && (mine > theirs || mine == theirs && one.size < other.size)
    }
}

package import CloakroomWire

/// The fields that change in the requests or the responses of a route.
///
/// One pass over the fields of a message finds what to strip and which defaults it has already. The lines to add are made
/// once for each of the first combinations. Placeholders are expanded in one pass: what a request contains is never
/// expanded again.
public final class FieldChanges: Sendable {
    /// What a placeholder stands for.
    package enum Value: Sendable {
        case requestID, clientAddress, userID, site
        /// The segment of the path after a number of slashes; 0 for none.
        case segment(after: Int)
    }

    /// Writes the value of a placeholder: visible ASCII.
    package typealias Writing = (Value, inout HeadWriter) -> Void

    private struct Line: Sendable {
        /// The bit of its name, and those of messages that do not get it.
        let omitted: UInt64
        /// The indices of its parts.
        let parts: Range<Int>
    }

    /// The maximum length of a value in the configuration, and of all that its placeholders stand for, in bytes.
    package static let maxLength = 1_024
    /// The maximum number of names in a section. Two sections, a preset, HSTS and `X-Frame-Options` have 55 bits.
    package static let maxNames = 24

    private let names: FieldNameSet
    private let filter: FieldNameSet.Filter
    /// By the position of a name in ``names``: the name in lower case, and the bits of the defaults that a received field
    /// replaces.
    private let exact: [[UInt8]]
    private let replaced: [UInt64]
    /// The bits of the names whose received fields are stripped.
    private let strips: UInt64
    /// Whether fields are removed that nothing replaces.
    package let removes: Bool
    private let lines: [Line]
    /// The position of each literal in ``literals``, with the value that follows it.
    private let parts: [(literal: Range<Int>, value: Value?)]
    private let literals: [UInt8]
    /// Whether no line has a placeholder.
    private let isConstant: Bool
    /// If no line has a placeholder: all lines, over TLS and in clear text. Most responses get them.
    private let (allSecure, allClear): ([UInt8], [UInt8])
    /// The lines for other responses.
    private let variants = FieldLineVariants()
    /// The bits of a variant's key that no name has.
    private static let clearBit: UInt64 = 1 << 63
    private static let notModifiedBit: UInt64 = 1 << 62

    /// - Parameters:
    ///   - changes: At most one for each name.
    ///   - route: The route of the messages, for its name and those of its path.
    /// - Returns: `nil` if nothing changes.
    package init?(_ changes: [FieldChange], of route: Route? = nil) {
        guard !changes.isEmpty else { return nil }
        let framing = "X-Frame-Options"
        let allNames = changes.map(\.name) + [framing]
        let names = FieldNameSet(allNames)
        var replaced = [UInt64](repeating: 0, count: changes.count + 1)
        var exact = [[UInt8]](repeating: [], count: changes.count + 1)
        for name in allNames {
            exact[names.index(of: name) ?? 0] = name.utf8.map { ASCII.lower($0) }
        }
        var strips: UInt64 = 0
        var (lines, literals): ([Line], [UInt8]) = ([], [])
        var parts: [(literal: Range<Int>, value: Value?)] = []
        for change in changes {
            let bit: UInt64 = 1 << UInt64(names.index(of: change.name) ?? 0)
            if change.kind.replaces { strips |= bit }
            // A policy that permits framing would override `X-Frame-Options` of the upstream, which may forbid it.
            for name in [change.name] + (change.permitsFraming ? [framing] : []) where change.kind == .default {
                replaced[names.index(of: name) ?? 0] |= bit
            }
            guard change.kind != .remove else { continue }
            let start = parts.count
            for text in Self.split("\(change.name): \(change.value)\r\n") ?? [] {
                let begin = literals.count
                literals += (text.literal + (text.name == "route" ? route?.name ?? "" : "")).utf8
                parts.append((begin..<literals.count, Self.value(text.name, route)))
            }
            var omitted = bit | (change.kind.replaces ? 0 : Self.notModifiedBit)
            if change.kind == .setOverTLS { omitted |= Self.clearBit }
            lines.append(Line(omitted: omitted, parts: start..<parts.count))
        }
        (self.names, self.exact, self.replaced) = (names, exact, replaced)
        (self.strips, self.lines, self.parts, self.literals) = (strips, lines, parts, literals)
        removes = changes.contains { $0.kind == .remove }
        filter = FieldNameSet.Filter(allNames)
        let isConstant = parts.allSatisfy { $0.value == nil }
        self.isConstant = isConstant
        let constant = { (key: UInt64) -> [UInt8] in
            guard isConstant else { return [] }
            return lines.filter { key & $0.omitted == 0 }.flatMap { $0.parts.flatMap { literals[parts[$0].literal] } }
        }
        (allSecure, allClear) = (constant(0), constant(Self.clearBit))
    }

    /// Splits a text into literals and the names of placeholders that follow them. Other braces are literal, as in JSON.
    /// - Returns: `nil` if a name has no closing brace.
    package static func split(_ text: String) -> [(literal: Substring, name: Substring?)]? {
        var parts: [(literal: Substring, name: Substring?)] = []
        var end = text.startIndex
        for match in text.matches(of: /\{([A-Za-z0-9_.\-]+)(\}?)/) {
            guard !match.2.isEmpty else { return nil }
            parts.append((text[end..<match.range.lowerBound], match.1))
            end = match.range.upperBound
        }
        return parts + [(text[end...], nil)]
    }

    /// - Returns: `nil` for none, and for the name of the route, which is part of the literal.
    private static func value(_ name: Substring?, _ route: Route?) -> Value? {
        guard let name, name != "route" else { return nil }
        return switch name {
        case "request_id": .requestID
        case "client_address": .clientAddress
        case "user.id": .userID
        case "site" where route?.pattern.segments.contains(.parameter("site")) != true: .site
        default: .segment(after: 1 + (route?.pattern.segments.firstIndex(of: .parameter(String(name))) ?? -1))
        }
    }

    /// Marks the fields to strip, in any spelling.
    /// - Returns: The bits of the defaults that the message has already. Browsers ignore other spellings.
    package func apply(to fields: inout [FieldSlice], _ bytes: Span<UInt8>) -> UInt64 {
        var present: UInt64 = 0
        for index in fields.indices {
            let field = fields[index]
            guard filter.mayContain(field, of: bytes), !field.isStripped,
                let position = names.index(bytes, field.nameRange)
            else { continue }
            if strips >> UInt64(position) & 1 != 0 {
                fields[index].isStripped = true
            } else if ASCII.equals(bytes, field.nameRange, exact[position]) {
                present |= replaced[position]
            }
        }
        return present
    }

    /// The lines that a message gets.
    ///
    /// A forwarded 304 (Not Modified) gets only those that replace: its fields replace those of the stored response (RFC
    /// 9111 §3.2), which may be of the upstream.
    /// - Parameters:
    ///   - present: The bits of lines to omit.
    ///   - status: The status of a forwarded response; otherwise 0.
    ///   - isSecure: Whether the client uses https.
    ///   - value: A line without a value, or with too long ones, is omitted.
    package func lines(without present: UInt64, status: Int = 0, isSecure: Bool = false, _ value: Writing) -> [UInt8] {
        if isConstant, present == 0, status != 304 { return isSecure ? allSecure : allClear }
        let key = present | (isSecure ? 0 : Self.clearBit) | (status == 304 ? Self.notModifiedBit : 0)
        return isConstant ? variants.lines(key) { made(key, value) } : made(key, value)
    }

    /// The lines that a local response gets: those of names that it does not have.
    package func lines(besides own: [UInt8], isSecure: Bool, _ value: Writing) -> [UInt8] {
        var present: UInt64 = 0
        names.forEachIndex(in: own.span) { present |= 1 << UInt64($0) | replaced[$0] }
        return lines(without: present, isSecure: isSecure, value)
    }

    private func made(_ key: UInt64, _ value: Writing) -> [UInt8] {
        var nothing: Void = ()
        return [UInt8](reserving: length, from: &nothing) { writer, _ in write(key, to: &writer, value) }
    }

    /// The expected length of all lines in bytes.
    package var length: Int { literals.count + 32 * parts.count }

    /// Appends the lines of a message. The bits of the key are those of lines to omit; 0 for a request.
    package func write(_ key: UInt64 = 0, to writer: inout HeadWriter, _ value: Writing) {
        let literals = literals
        for line in lines where key & line.omitted == 0 {
            let start = writer.count
            var left = Self.maxLength
            for index in line.parts where left >= 0 {
                writer.append(literals.span.bytes.extracting(parts[index].literal))
                guard let wanted = parts[index].value else { continue }
                let count = writer.count
                value(wanted, &writer)
                left -= writer.count == count ? Self.maxLength + 1 : writer.count - count
            }
            if left < 0 { writer.count = start }
        }
    }
}

/// Field lines that are constant for each combination of other fields: those of the first combinations are made once.
struct FieldLineVariants: ~Copyable, Sendable {
    final class Variant: Sendable {
        let key: UInt64
        let lines: [UInt8]
        let next = ReferenceSetOnce<Variant>()

        init(_ key: UInt64, _ lines: [UInt8]) { (self.key, self.lines) = (key, lines) }
    }

    private let first = ReferenceSetOnce<Variant>()
    /// The maximum number of variants that are kept.
    static let most = 8

    /// - Parameters:
    ///   - key: The combination.
    ///   - make: Makes its lines.
    borrowing func lines(_ key: UInt64, _ make: () -> [UInt8]) -> [UInt8] {
        var variant = first.load() ?? first.storeIfNil(Variant(key, make()))
        for _ in 1..<Self.most where variant.key != key {
            variant = variant.next.load() ?? variant.next.storeIfNil(Variant(key, make()))
        }
        return variant.key == key ? variant.lines : make()
    }
}

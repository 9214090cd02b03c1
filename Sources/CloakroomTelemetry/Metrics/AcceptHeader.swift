package import CloakroomCore

extension ExpositionFormat {
    /// Selects the format by an `Accept` field (RFC 9110, section 12.5.1). OpenMetrics must be named explicitly; a
    /// wildcard selects the older format, which clients that send a wildcard expect. Elements that are malformed or
    /// name an unsupported version are ignored.
    init(accept: String?) {
        var openMetrics = 0
        // The quality for plain text from the most specific matching element.
        var text: (exact: Int?, type: Int?, anything: Int?) = (nil, nil, nil)
        for range in Substring(accept ?? "").split(outsideQuotesAt: UInt8(ascii: ",")).compactMap(AcceptedRange.init) {
            switch range.type {
            case "application/openmetrics-text" where [nil, "1.0.0"].contains(range.version):
                openMetrics = max(openMetrics, range.quality)
            case "text/plain" where [nil, "0.0.4"].contains(range.version):
                text.exact = max(text.exact ?? 0, range.quality)
            case "text/*":
                text.type = max(text.type ?? 0, range.quality)
            case "*/*":
                text.anything = max(text.anything ?? 0, range.quality)
            default:
                break
            }
        }
        let plain = text.exact ?? text.type ?? text.anything ?? 0
        self = openMetrics > 0 && openMetrics >= plain ? .openMetrics : .text
    }
}

/// One element of `Accept`.
private struct AcceptedRange {
    /// In lower case.
    let type: String
    /// The parameter `version`, unquoted.
    private(set) var version: String?
    /// The weight in thousandths.
    private(set) var quality = 1_000

    init?(_ element: Substring) {
        // Restricted to ASCII: String comparison normalizes, which is slow for a long run of combining marks.
        guard element.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        let parts = element.split(outsideQuotesAt: UInt8(ascii: ";")).map { $0.trimmed }
        guard let type = parts.first, !type.isEmpty else { return nil }
        self.type = type.lowercased()
        for parameter in parts.dropFirst() {
            guard let equals = parameter.firstIndex(of: "=") else { continue }
            let value = parameter[parameter.index(after: equals)...]
            switch parameter[..<equals].lowercased() {
            case "version":
                version = String(value.filter { $0 != "\"" })
            case "q":
                guard let thousandths = Self.thousandths(value) else { return nil }
                quality = thousandths
            default:
                break
            }
        }
    }

    /// A weight (RFC 9110, section 12.4.2): 0 to 1 with at most three decimals.
    private static func thousandths(_ text: Substring) -> Int? {
        let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard let whole = parts.first, whole == "0" || whole == "1" else { return nil }
        let decimals = parts.count > 1 ? parts[1] : ""
        guard decimals.utf8.count <= 3, decimals.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        let padded = decimals + String(repeating: "0", count: 3 - decimals.utf8.count)
        guard let fraction = Int(padded), whole == "0" || fraction == 0 else { return nil }
        return whole == "1" ? 1_000 : fraction
    }
}

extension Substring {
    /// The parts between separators outside of quoted strings.
    fileprivate func split(outsideQuotesAt separator: UInt8) -> [Substring] {
        var isQuoted = false
        var isEscaped = false
        let pieces = utf8.split(omittingEmptySubsequences: true) { byte in
            if isEscaped {
                isEscaped = false
                return false
            }
            if isQuoted, byte == UInt8(ascii: "\\") { isEscaped = true }
            if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
            return byte == separator && !isQuoted
        }
        return pieces.map { Substring($0) }
    }
}

extension Substring {
    fileprivate var trimmed: Substring {
        let isBlank = { (character: Character) in character == " " || character == "\t" }
        let start = drop(while: isBlank)
        guard let last = start.lastIndex(where: { !isBlank($0) }) else { return "" }
        return start[...last]
    }
}

/// Parsers of data from collectors and scrapers, exposed for fuzzing.
package enum TelemetryWire {
    /// The number of spans that a collector's response rejects.
    package static func rejectedSpans(_ body: [UInt8]) -> Int {
        OTLPResponse.rejectedSpans(body)
    }

    /// The delay given by a `Retry-After` field; `nil` if it is invalid.
    package static func retryAfter(_ value: String, now: Timestamp) -> Duration? {
        RetryAfter.read(value, now: now)
    }

    /// Whether an `Accept` field selects OpenMetrics.
    package static func prefersOpenMetrics(accept: String) -> Bool {
        ExpositionFormat(accept: accept) == .openMetrics
    }
}

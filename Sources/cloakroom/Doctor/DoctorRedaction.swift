import CloakroomCore
import CloakroomIdentity
import Foundation

/// Reduces what an upstream sent to what may be printed: names of keys, media types, sizes.
///
/// Values are never printed. A name is printed only if it is an ordinary identifier and contains neither a known secret
/// nor a text of the same exchange: an upstream may write a token where a name is expected.
struct DoctorRedaction {
    private static let placeholder = "<redacted>"
    /// Shorter secrets are compared as a whole, because they occur in ordinary names.
    private static let shortestPart = 4
    /// Names of at least this length that are a part of a secret are not printed.
    private static let shortestFragment = 6
    /// The texts of responses that are treated as secrets, by their length in bytes.
    private static let shortestText = 8
    static let maxSecrets = 2_000
    private static let maxNameLength = 40
    /// For names of several words in lower case, such as those of a provider's metadata: no token has such a form.
    private static let maxNameLengthOfWords = 72
    private static let maxNames = 24
    private static let maxDepth = 3

    private var secrets: Set<String> = []
    /// Whether the responses had more texts than are compared. Then nothing of a response is printed.
    private(set) var isIncomplete = false
    /// The secrets of this exchange in lower case, without texts of responses: a text may be a sentence about keys.
    private var wholes: Set<String> = []

    init(_ secrets: [Secret]) {
        for secret in secrets { add(secret) }
    }

    /// Adds a secret, and its usual encodings.
    mutating func add(_ secret: Secret) {
        let text = String(decoding: secret.bytes, as: UTF8.self)
        let bearer = text.hasPrefix("Bearer ") ? String(text.dropFirst("Bearer ".count)) : text
        let base64 = Data(secret.bytes).base64EncodedString()
        let unpadded = base64.replacing("=", with: "")
        secrets.formUnion([
            bearer, base64, unpadded, unpadded.replacing("+", with: "-").replacing("/", with: "_"),
            FormEncoding.encode(bearer), secret.bytes.map { String(format: "%02x", $0) }.joined(),
            bearer.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? bearer,
        ])
        secrets.remove("")
        wholes.insert(bearer.lowercased())
    }

    /// Adds the texts in a response that may contain tokens.
    mutating func addTexts(of document: JSONValue) {
        switch document {
        case .string(let text):
            guard text.utf8.count >= Self.shortestText, !secrets.contains(text) else { return }
            guard secrets.count < Self.maxSecrets else { return isIncomplete = true }
            secrets.insert(text)
        case .array(let items): for item in items { addTexts(of: item) }
        case .object(let members): for value in members.values { addTexts(of: value) }
        case .null, .bool, .number: break
        }
    }

    /// The paths of the members of an object, in order, at most 24 and three levels deep; none if ``isIncomplete``.
    func names(in document: JSONValue) -> [String] {
        guard !isIncomplete else { return [] }
        var result: [String] = []
        var omitted = 0
        collect(document, prefix: "", depth: 1, into: &result, omitted: &omitted)
        return omitted == 0 ? result : result + ["and \(omitted) more"]
    }

    /// Names beyond the limit are only counted: comparing each with all secrets would take long for a large response.
    private func collect(
        _ value: JSONValue, prefix: String, depth: Int, into result: inout [String], omitted: inout Int
    ) {
        guard case .object(let members) = value else { return }
        for (name, value) in members.sorted(by: { $0.key.text < $1.key.text }) {
            var path = ""
            if result.count < Self.maxNames {
                path = prefix + self.name(name.text)
                result.append(path)
            } else {
                omitted += 1
            }
            guard depth < Self.maxDepth else { continue }
            collect(value, prefix: path + ".", depth: depth + 1, into: &result, omitted: &omitted)
        }
    }

    /// A name of a member; `<redacted>` unless it is an ordinary identifier.
    func name(_ text: String) -> String {
        let digits = text.utf8.count { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        let isOfWords = text.utf8.count <= Self.maxNameLengthOfWords && text.wholeMatch(of: /[a-z]+(_[a-z]+)+/) != nil
        guard text.utf8.count <= Self.maxNameLength || isOfWords, digits < 4,
            text.wholeMatch(of: /[A-Za-z0-9_@$:\-]+/) != nil, !containsSecret(text)
        else { return Self.placeholder }
        return text
    }

    /// A media type without parameters.
    func mediaType(_ text: String) -> String {
        let type = text.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces)
        guard type.wholeMatch(of: /[A-Za-z0-9.+\-]{1,40}\/[A-Za-z0-9.+\-]{1,60}/) != nil,
            !type.split(separator: "/").contains(where: { containsSecret(String($0)) })
        else { return Self.placeholder }
        return type
    }

    /// An error code, if it is one of letters and underscores.
    func code(_ text: String) -> String {
        text.wholeMatch(of: /[a-z_]{1,40}/) != nil && !containsSecret(text) ? text : Self.placeholder
    }

    /// A URL without its query.
    func url(_ text: String) -> String {
        let url = String(text.prefix { $0 != "?" && $0 != "#" }.prefix(200))
        return url.unicodeScalars.allSatisfy { (0x21...0x7e).contains($0.value) } ? url : Self.placeholder
    }

    /// Whether a text has a secret in it, or is a longer part of one, or may be, because not all of them are known.
    private func containsSecret(_ text: String) -> Bool {
        if isIncomplete { return true }
        let folded = text.lowercased()
        if folded.utf8.count >= Self.shortestFragment, wholes.contains(where: { $0.contains(folded) }) { return true }
        return secrets.contains { secret in
            secret.utf8.count < Self.shortestPart ? secret == text : folded.contains(secret.lowercased())
        }
    }

    /// A call as it may be printed.
    func call(_ observation: IdentityCallObservation) -> DoctorStep.Call {
        let response = observation.response
        let size = response.flatMap { $0.isWhole || !$0.body.isEmpty ? $0.body.count : $0.announcedLength }
        let milliseconds = observation.duration / .milliseconds(1)
        let failure: String? =
            switch observation.failure {
            case .unreachable: "the connection could not be established, or was lost"
            case .timedOut: "the time limit passed (timeouts.identity, timeouts.connect)"
            case .failed: "the response is not valid HTTP, or larger than 65536 bytes"
            case .rejected, .denied, .busy, .misconfigured, nil: nil
            }
        return DoctorStep.Call(
            method: observation.method, url: url(observation.url), fields: observation.fieldNames,
            bodyType: observation.bodyType, status: response?.status,
            contentType: response?.contentType.map(mediaType), bytes: size, failure: failure,
            milliseconds: (milliseconds * 10).rounded() / 10)
    }
}

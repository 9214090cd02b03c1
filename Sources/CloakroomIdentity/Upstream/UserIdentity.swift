import CloakroomCore

/// Derives the account at an upstream from a user's document.
enum UserIdentity {
    /// The maximum length of an id, in bytes.
    static let longestID = 255
    /// Integers above this are not exact as JSON numbers (RFC 8259 §6).
    private static let largestInteger = 9_007_199_254_740_991.0

    /// The account by the upstream's user id, at the path that ``IdentityEndpointConfiguration/userID`` names.
    /// - Returns: `nil` if there is no `user` call, or no id that can be compared exactly: neither a string of 1 to
    ///   ``longestID`` bytes nor an integer up to 2^53 - 1. Then the typed name is the account.
    static func account(in document: [UInt8], _ upstream: UpstreamConfiguration) -> AccountName? {
        guard let configuration = upstream.user, let value = JSONValue(document: document)?[path: configuration.userID],
            let id = text(of: value)
        else { return nil }
        return AccountName(userID: id, source: SessionSource(upstream: upstream.sessionSource))
    }

    /// A number and a string of the same digits are one id: an upstream that changes its format means the same user.
    private static func text(of value: JSONValue) -> String? {
        switch value {
        case .string(let text): (1...longestID).contains(text.utf8.count) ? text : nil
        case .number(let number):
            abs(number) <= largestInteger && number == number.rounded() ? String(Int64(number)) : nil
        default: nil
        }
    }
}

import CloakroomCore
import Foundation

/// A value of a response or of a request that APIs name differently. Finds the member that probably has it.
enum UsualMember {
    case accessToken, refreshToken, lifetime, userID, name, password, apiTokenField

    /// The names in lower case, without `_` and `-`.
    private var names: Set<String> {
        switch self {
        case .accessToken: ["accesstoken", "token", "access", "jwt", "authtoken", "authkey", "bearer", "bearertoken"]
        case .refreshToken: ["refreshtoken", "refresh", "refreshjwt", "renew", "renewtoken", "renewaltoken"]
        case .lifetime:
            ["expiresin", "expires", "expiresinseconds", "expirein", "ttl", "lifetime", "validfor", "maxage"]
        case .userID: ["id", "uid", "userid", "uuid", "guid", "sub", "accountid"]
        case .name:
            ["user", "username", "login", "loginname", "userid", "identifier", "account", "email", "mail", "phone"]
        case .password: ["password", "pass", "passwd", "pwd", "pin", "passcode", "passphrase", "secret"]
        case .apiTokenField: ["xapikey", "apikey", "xapitoken", "xauthtoken", "xaccesstoken", "ocpapimsubscriptionkey"]
        }
    }

    /// The longest lifetime in seconds; larger numbers are points in time.
    private static let maxLifetime = 1e8

    /// The paths of suitable values with a usual name, at most three, one of each object below the top.
    func candidates(in document: JSONValue, _ redaction: DoctorRedaction) -> [String] {
        guard case .object(let members) = document else { return [] }
        var found: [String] = []
        for (name, value) in members.sorted(by: { $0.key.text < $1.key.text }) where found.count < 3 {
            if isMatch(name, value), redaction.name(name.text) == name.text { found.append(name.text) }
            guard case .object(let inner) = value else { continue }
            let member = inner.sorted { $0.key.text < $1.key.text }.first { isMatch($0.key, $0.value) }
            guard let member, redaction.name(name.text) == name.text else { continue }
            found.append("\(name.text).\(member.key.text)")
        }
        return found
    }

    /// The first usual name that a text contains as a word, such as an error that lists the members it expects.
    /// - Parameter configured: The name that the request has.
    func word(in text: String, otherThan configured: String?, _ redaction: DoctorRedaction) -> String? {
        let words = text.split { !$0.isLetter && !$0.isNumber && $0 != "_" && $0 != "-" }.map(String.init)
        guard configured.map({ !words.contains($0) }) ?? true else { return nil }
        return words.first { isUsual($0) && redaction.name($0) == $0 }
    }

    private func isUsual(_ name: String) -> Bool {
        names.contains(name.lowercased().filter { $0 != "_" && $0 != "-" })
    }

    private func isMatch(_ name: JSONMemberName, _ value: JSONValue) -> Bool {
        guard isUsual(name.text) else { return false }
        return switch (self, value) {
        case (.lifetime, .number(let number)): number > 0 && number < Self.maxLifetime
        case (.lifetime, .string(let text)): Double(text).map { $0 > 0 && $0 < Self.maxLifetime } ?? false
        case (.userID, .number), (_, .string): true
        default: false
        }
    }
}

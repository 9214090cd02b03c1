import CloakroomCore
import Foundation
import TestSupport

@testable import CloakroomIdentity

extension FuzzTarget {
    /// The credentials of a sign-in, parsed as a form, as JSON and as `Authorization: Basic`.
    static let signIns = FuzzTarget(
        "sign-ins",
        words: [
            "email=", "&password=", "&", "=", "+", "%", "%40", "%00", "%0d%0a", "%c3%a9", "%C3", "%zz", "@", "a@b.c",
            "Basic ", "basic ", "Bearer ", "YUBiLmM6cA==", ":", "{\"email\":\"a@b.c\",\"password\":\"p\"}", "é",
            "\u{0}",
            "\u{200b}", "\u{301}", "..", "-", " ",
        ],
        times: [
            LinearTime(SignInTexts.families) { bytes in
                _ = FormURLEncodedBody.read(bytes)
                _ = SignInTexts.basic(bytes)
                for type in ["application/x-www-form-urlencoded", "application/json"] {
                    _ = SignInTexts.credentials(bytes, type)
                }
            }
        ]
    ) { bytes throws(Violation) in
        let form = FormURLEncodedBody.read(bytes)
        try require(form == SignInTexts.plainForm(bytes), "a form was parsed as \(form ?? [:])")
        if let form {
            let written = form.sorted { $0.key.text < $1.key.text }
                .map { SignInTexts.escaped($0.key.text) + "=" + SignInTexts.escaped($0.value) }.joined(separator: "&")
            try require(FormURLEncodedBody.read(Array(written.utf8)) == form, "a written form is parsed differently")
        }
        try SignInTexts.checkBasic(bytes)
        for type in ["application/x-www-form-urlencoded", "application/json", "text/plain"] {
            guard let credentials = SignInTexts.credentials(bytes, type) else { continue }
            try require(type != "text/plain", "credentials of an unsupported type were accepted")
            let email = Array(credentials.name.utf8)
            try require(
                email.count <= 254 && email.count { $0 == UInt8(ascii: "@") } == 1
                    && !email.contains { $0 <= 0x20 || $0 == 0x7f || ":;,\"\\<>".utf8.contains($0) },
                "a name that is not an email address")
            try require(
                !credentials.password.isEmpty && !credentials.password.bytes.contains { $0 < 0x20 || $0 == 0x7f },
                "a password that is empty or has control characters")
        }
        for type in ["application/x-www-form-urlencoded", "application/json"] {
            var name = AccountsConfiguration.SignInName.defaults
            name.kind = .text
            guard let credentials = SignInTexts.credentials(bytes, type, name: name) else { continue }
            try require(
                (1...254).contains(credentials.name.utf8.count)
                    && !credentials.name.utf8.contains { $0 < 0x20 || $0 == 0x7f },
                "a name that is empty, too long or has control characters")
            let configuration = IdentityEndpointConfiguration(path: "/", credentials: .form)
            let body = RequestCredentials.signIn(credentials, configuration: configuration)?.body?.content.bytes ?? []
            let password = String(decoding: credentials.password.bytes, as: UTF8.self)
            try require(
                FormURLEncodedBody.read(body) == ["email": credentials.name, "password": password],
                "a form for the upstream is parsed differently")
        }
    }
}

private enum SignInTexts {
    static let families: [LinearTime.Family] = [
        .repeated("separators", "&"),
        .repeated("equals signs", "="),
        .repeated("escapes", "%41", prefix: "email="),
        .repeated("percent signs", "%", prefix: "a="),
        .repeated("plus signs", "+"),
        .repeated("one name", "a=b&"),
        .numbered("many names", separator: "&") { "name\($0)=\($0)" },
        .numbered("names with a common prefix", separator: "&") { String(repeating: "a", count: 40) + "\($0)" },
        .repeated("one long value", "a", prefix: "email=a@b.c&password="),
        .repeated("combining marks", "\u{301}", prefix: "email=e"),
        // Comparing them as `String` would require Unicode normalization first.
        .repeated("a name of combining marks", "\u{301}\u{316}", suffix: "=a"),
        .repeated("an address of combining marks", "\u{301}\u{316}", prefix: "email=", suffix: "@b.c&password=p"),
        .repeated("at signs", "@", prefix: "email="),
        .repeated("Basic", "QUFB", prefix: "Basic "),
        .repeated("blanks in Basic", " ", prefix: "Basic "),
        .repeated("colons in Basic", "Ojo6", prefix: "Basic "),
        .repeated("blanks", " "),
    ]

    /// The credentials in a sign-in request; `nil` if the request is rejected.
    static func credentials(
        _ body: [UInt8], _ contentType: String, name: AccountsConfiguration.SignInName = .defaults
    ) -> Credentials? {
        let now = SessionTime(seconds: 0)
        return try? SignInRequestParser.read(
            AccountRequest(endpoint: .signIn, contentType: contentType, body: Secret(bytes: body), now: now),
            name: name)
    }

    /// The name and the password of `Authorization: Basic`.
    /// - Returns: `nil` for another scheme; `.some(nil)` for a malformed value.
    static func basic(_ authorization: [UInt8]) -> (name: String, password: [UInt8])?? {
        switch BasicAuthorization.read(Secret(bytes: authorization)) {
        case .otherScheme: nil
        case .malformed: .some(nil)
        case .pair(let name, let password): (name, password.bytes)
        }
    }

    /// A reference parser of a form.
    static func plainForm(_ bytes: [UInt8]) -> [JSONMemberName: String]? {
        var fields: [JSONMemberName: String] = [:]
        let pairs = bytes.split(separator: UInt8(ascii: "&"))
        guard pairs.count <= FormURLEncodedBody.maxFields else { return nil }
        for pair in pairs {
            let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.endIndex
            guard let name = plainText(Array(pair[..<equals])),
                let value = plainText(Array(pair[equals...].dropFirst())),
                fields[JSONMemberName(name)] == nil
            else { return nil }
            fields[JSONMemberName(name)] = value
        }
        return fields
    }

    private static func plainText(_ bytes: [UInt8]) -> String? {
        let parts = bytes.map { $0 == UInt8(ascii: "+") ? 0x20 : $0 }
            .split(separator: UInt8(ascii: "%"), omittingEmptySubsequences: false)
        var decoded = Array(parts[0])
        for part in parts.dropFirst() {
            let digits = part.prefix(2)
            guard digits.count == 2, digits.allSatisfy({ "0123456789abcdefABCDEF".utf8.contains($0) }),
                let byte = UInt8(String(decoding: digits, as: UTF8.self), radix: 16)
            else { return nil }
            decoded.append(byte)
            decoded += part.dropFirst(2)
        }
        return String(validating: decoded, as: UTF8.self)
    }

    static func escaped(_ text: String) -> String {
        text.utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    static func checkBasic(_ bytes: [UInt8]) throws(Violation) {
        let isBasic = String(decoding: bytes.prefix { $0 != 0x20 }, as: UTF8.self).lowercased() == "basic"
        guard let reading = basic(bytes) else {
            try require(!isBasic, "Basic is parsed as another scheme")
            return
        }
        try require(isBasic, "another scheme is parsed as Basic")
        guard let reading else { return }
        try require(!reading.name.utf8.contains(UInt8(ascii: ":")), "a name with a colon")
        let pair = Array((reading.name + ":").utf8) + reading.password
        try require(String(validating: pair, as: UTF8.self) != nil, "credentials that are not UTF-8")
        let again = basic(Array("Basic \(Data(pair).base64EncodedString())".utf8))
        guard case .some(.some(let second)) = again else { throw Violation("written Basic credentials are rejected") }
        try require(
            second.name == reading.name && second.password == reading.password,
            "written Basic credentials are parsed differently")
    }
}

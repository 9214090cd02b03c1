import CloakroomCore
import Testing

@Suite("Hosts of this machine")
struct LocalHostTests {
    @Test(
        "Rule 100: hosts of this machine are localhost, the names below it, 127.0.0.0/8 and [::1]",
        arguments: [
            ("localhost", true), ("localhost:8080", true), ("LocalHost.", true), ("app.localhost:1", true),
            ("a.b.LOCALHOST.", true), ("127.0.0.1", true), ("127.255.0.9:80", true), ("[::1]:8080", true),
            ("[0:0:0:0:0:0:0:1]", true), ("", false), (":80", false), (".localhost", false), ("localhost..", false),
            ("localhost.example", false), ("notlocalhost", false), ("localhost%2e", false), ("127.0.0.1.", false),
            ("127.0.0.1.example", false), ("127.1", false), ("2130706433", false), ("0x7f.0.0.1", false),
            ("0.0.0.0", false), ("128.0.0.1", false), ("::1", false), ("[::2]", false), ("[::ffff:127.0.0.1]", false),
            ("[::1", false), ("localhost@evil.example", false), ("evil.example:80", false), ("10.0.0.1", false),
        ])
    func localHosts(authority: String, isLocal: Bool) {
        #expect((HostNames.folded(authority).map(HostNames.isLocal) ?? false) == isLocal)
    }
}

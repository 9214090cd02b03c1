import CloakroomCore
import Testing

@Suite("The hashes of accounts")
struct AccountHasherTests {
    private let newest = KeyedHash(key0: 1, key1: 2)
    private let older = KeyedHash(key0: 3, key1: 4)
    private let account = AccountName(email: "canary@example.com")

    @Test("are computed with the newest key, and searched for under all keys, the newest first")
    func rotation() {
        let hashes = AccountHasher(newest, older: [older])
        #expect(hashes.hash(account) == account.hash(under: newest))
        #expect(hashes.candidateHashes(account) == [account.hash(under: newest), account.hash(under: older)])
        #expect(hashes.newest.hash([1]) == newest.hash([1]))
        #expect(AccountHasher(newest).candidateHashes(account) == [hashes.hash(account)])
    }

    @Test("of a name under a rotated key are found if both keys are known")
    func found() {
        let before = AccountHasher(older).hash(account)
        #expect(AccountHasher(newest, older: [older]).candidateHashes(account).contains(before))
        #expect(!AccountHasher(newest).candidateHashes(account).contains(before))
    }

    @Test("Rule 22: do not show their keys")
    func redacted() {
        let hashes = AccountHasher(newest, older: [older])
        var dumped = ""
        dump(hashes, to: &dumped)
        #expect("\(hashes)" == "<redacted>")
        #expect(!dumped.contains("key0"))
    }
}

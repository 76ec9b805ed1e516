//! Tests of signatures: the examples of the RFCs, and signatures that must be refused.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcpjoin_proto::Raw;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, RSA_PSS_SHA256, RsaKeyPair};

use super::{
    Algorithm, Header, Jws, JwsError, KeySet, MAX_TOKEN_BYTES, PublicKey, SigningKey, decode, encode, signing,
};

/// RFC 7515, A.2.
const RS256: &str = concat!(
    "eyJhbGciOiJSUzI1NiJ9",
    ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
    ".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdb",
    "F9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383",
    "LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWy",
    "wlVmtVrBp0igcN_IoypGlUPQGe77Rw",
);
const RSA_JWK: &str = concat!(
    r#"{"kty":"RSA","e":"AQAB","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrc"#,
    "S2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5",
    "z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWN",
    r#"moudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}"#,
);
/// RFC 7515, A.3.
const ES256: &str = concat!(
    "eyJhbGciOiJFUzI1NiJ9",
    ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
    ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
);
const P256_JWK: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
/// RFC 8037, A.2 and A.4; its payload is not JSON.
const ED25519_JWK: &str =
    r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
const ED25519_SIGNED: &str = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
const ED25519_SIGNATURE: &str =
    "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";

const P256_SEC1: &str = "\
-----BEGIN EC PARAMETERS-----\n\
BggqhkjOPQMBBw==\n\
-----END EC PARAMETERS-----\n\
-----BEGIN EC PRIVATE KEY-----\n\
MHcCAQEEIM4FM5C4oFRHu3Eerz6ai50NbKH6/nPqEWtpSLy3Yo6soAoGCCqGSM49\n\
AwEHoUQDQgAE5QOhOsyP/E9RA7BEi0kcYT44GOPucd1e+IKci/B9YVkxI3je+1ou\n\
qAoT5cowt1TamPO/2cNsEztbt6y3obrxGg==\n\
-----END EC PRIVATE KEY-----\n\
";
const P256_PKCS8: &str = "\
-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgzgUzkLigVEe7cR6v\n\
PpqLnQ1sofr+c+oRa2lIvLdijqyhRANCAATlA6E6zI/8T1EDsESLSRxhPjgY4+5x\n\
3V74gpyL8H1hWTEjeN77Wi6oChPlyjC3VNqY87/Zw2wTO1u3rLehuvEa\n\
-----END PRIVATE KEY-----\n\
";
const P384_PKCS8: &str = "\
-----BEGIN PRIVATE KEY-----\n\
MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDASwnWMV49sMa2WimpR\n\
YHwK3J5Rikw8MFkvh2NqvrFumWus1z33uddFGoEeXkuJQl2hZANiAATYLIBqzcBp\n\
gwrhoITM85qse2S+BzK4v+oQEmelInCRk1yxIIoVhPQ8v+knDyvE8yFZxzKd0F8T\n\
t2YYXjfi2MPd2pF/q5oK2Pa3X8aDpl51imwI1Qq+ck0rns8Z/crkP34=\n\
-----END PRIVATE KEY-----\n\
";
const RSA_PKCS8: &str = "\
-----BEGIN PRIVATE KEY-----\n\
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQD1Ng9qFsSelx0Q\n\
taA62q91oTRKcw6nQ5jfw3tsiPF2e1VdYCA5e/uYX9ff6KwLW6BFSSK4DYA2RnJg\n\
IP7FRUvy7TTzL3cNF5XD9IZCMuWd2EoqsLEeFgHznlMaJRJS0mbaQohm9VDqzEBE\n\
a40x2xXwJ3SSWme5+SM47Xl6QX9eZ3N4lPJc2DZz5oCza183o2b+Tcmxv84rrkpD\n\
hOvUcrIJoXa5JsJEVl7vBE+j6R8LcBMG3Wl794fTWZT6sLUqheWHC6H4dmFvyVsB\n\
VFdXpF3+j3X/CNAiS0hXpzO7MnYs6v/Ezbngu91k5L+25anolttu5nq1kBfxHc4U\n\
LQUJWkXFAgMBAAECggEADb2sSnUhKoPsUInlAzdK+swASqW87fmXQP7K1U+tPEb4\n\
ByYCWEZO2ICSb80xiudlCUzqYab8Bs6WzTU8IaDa+y94tqHzyWuHbHYw6dfBT0GW\n\
EmNZYYa5MEYwgPgP2U1KDzQIQcDAeo/ckBj4zhDpX05OtX7UbjL8Ws3P715pPUhx\n\
toqx/hfYLhcTMiDGecophnhzEoAiMsZlmuGhdGJgccG/UDmNAcmVfEuTgjr5lh+C\n\
ihnaBTv7QO/p+bBkkRKEIBhvMInQgF6D3BazeZo8ZL3l2YEsppPcIGERus3MtUyB\n\
QLbx+x0cfUocoIsJz9bynZoB7o46UwMWL/Q3rjQmFwKBgQD9au11ruKztFm02ZfO\n\
rQ8ZCM+bucO27jw0Lfe/qJWgVFCKElzjfiOBfQjLBYoBt5Ji7YcTcp6gihMbV8ki\n\
53fvvRvi4QXSqBbtNgzWi64cwvj5hv90n5aF++uhCcpsobgln7xH60j5No1MV5HG\n\
CHO63C9Mju+7BaQXWz56fBADkwKBgQD3tbmS3HcT2Tgm1u+Cj3vrfPiDSzxY10hx\n\
zLDfxWfVXgd7n4N8C40VAqfZHgqkYO3rGTSW27lGTYz0jtaLgLRxMqH31c9bW680\n\
1gKO5Cumn6HggXIDGqrPy5B8gARJCkuGYE43XZ6x9r40fFB8DhdQogH5TvDiHRz9\n\
On1K2E6YRwKBgDvqdyBW7AS/BGKs+6aC5knt+mAASNTMePGBWM04x7+zj6NFei7T\n\
WQO5k0WlFp8XTwYS0Nf5RqYAX0octFKLVaEaHijDOUQ4N8t39wsW1WC5fHJKx8VE\n\
Iiulh214yiJrDgXfQX3jlEpP6pJ9NdsTjoFEo+4+8VFPoR9glGITSRn/AoGBAN/E\n\
7z4nIP7yNJKJidX0zmod+9WHap2K5SvAUGvlRXZvOe1IXRv6x1kajAxL4is6UNMX\n\
cvVwyj8jIVlvi4p8GwVDSyO6p1YNTgo55he1MWWVQUOxTBBXz8RlTUHa14Qv46gh\n\
aacEUK7NimeZgY9/nzo9D/FqiZqJ2D090B+DpgRTAoGALbOvX5z/4q4slPffNclK\n\
ctSvaGpxjy1BcrnqWNb8/br+phNSaiAZBLmPjBGeJJ26DZkKejBgJrX2Qwo1RbEc\n\
7ETGRnF2y5GdRn11tCTsK+kome+SyauiXI8HzLdW/qnxVJcIa7bbfcUE3a0vfXNI\n\
d/vyapOmKOkIA/FD7LrJ0W8=\n\
-----END PRIVATE KEY-----\n\
";

fn key(jwk: &str) -> PublicKey {
    PublicKey::from_jwk(&Raw::parse(jwk.to_owned()).unwrap()).unwrap()
}

fn set(keys: &[&str]) -> KeySet {
    KeySet::parse(format!(r#"{{"keys":[{}]}}"#, keys.join(",")).as_bytes()).unwrap()
}

/// The same JWK with more members.
fn with(jwk: &str, members: &str) -> String {
    format!("{},{members}}}", jwk.strip_suffix('}').unwrap())
}

fn token(header: &str, claims: &str) -> String {
    format!("{}.{}.{}", encode(header), encode(claims), encode("signature"))
}

#[test]
fn the_examples_of_the_rfcs_verify() {
    let keys = set(&[RSA_JWK, P256_JWK, ED25519_JWK]);
    assert_eq!(keys.len(), 3);
    for (text, algorithm) in [(RS256, Algorithm::Rs256), (ES256, Algorithm::Es256)] {
        let jws = Jws::parse(text).unwrap();
        assert_eq!(jws.algorithm(), algorithm);
        let claims = jws.verify(&keys).unwrap();
        assert_eq!(claims.member("iss").unwrap().as_str(), "\"joe\"");
        assert_eq!(claims.member("exp").unwrap().as_str(), "1300819380");
    }
    let signature = decode(ED25519_SIGNATURE).unwrap();
    assert!(key(ED25519_JWK).has_signed(Algorithm::EdDsa, ED25519_SIGNED.as_bytes(), &signature));
    assert!(!key(ED25519_JWK).has_signed(Algorithm::EdDsa, b"another text", &signature));
}

#[test]
fn thumbprints_are_those_of_the_rfcs() {
    // RFC 7638, 3.1: optional members and the order of members do not count.
    let jwk = concat!(
        r#"{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_B"#,
        "JECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMic",
        "AtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHa",
        r#"Q-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB","alg":"RS256","kid":"2011-04-29"}"#,
    );
    assert_eq!(key(jwk).thumbprint(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
    // RFC 8037, A.3.
    assert_eq!(key(ED25519_JWK).thumbprint(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    // RFC 9449, 6.1 and 4.1: the key of its proofs, and `jkt` of its token.
    let jwk = r#"{"kty":"EC","x":"l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs","y":"9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA","crv":"P-256"}"#;
    assert_eq!(key(jwk).thumbprint(), "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I");
}

#[test]
fn what_is_changed_does_not_verify() {
    for (text, jwk) in [(RS256, RSA_JWK), (ES256, P256_JWK)] {
        let keys = set(&[jwk]);
        let (signed, signature) = text.rsplit_once('.').unwrap();
        let other = format!("{}.{}", signed.split_once('.').unwrap().0, encode(r#"{"iss":"eve"}"#));
        let changed = [
            format!("{other}.{signature}"),
            format!("{signed}."),
            format!("{signed}.{}", encode([0; 64])),
            format!("{signed}.{}", encode([0; 256])),
            format!("{signed}.{}", encode(&decode(signature).unwrap()[1..])),
        ];
        for text in changed {
            assert_eq!(Jws::parse(&text).unwrap().verify(&keys), Err(JwsError::Signature), "{text}");
        }
    }
}

#[test]
fn none_and_hmac_are_no_algorithms() {
    for name in ["none", "None", "nOnE", "HS256", "HS384", "HS512", "es256", "ES256K", "RSA1_5", "RS1", ""] {
        let text = token(&format!(r#"{{"alg":"{name}"}}"#), "{}");
        assert_eq!(Jws::parse(&text).unwrap_err(), JwsError::Algorithm(name.to_owned()), "{name}");
    }
    let long = "A".repeat(1000);
    let error = Jws::parse(&token(&format!(r#"{{"alg":"{long}"}}"#), "{}")).unwrap_err();
    assert!(error.to_string().len() < 200);
}

#[test]
fn no_key_is_taken_for_one_of_another_kind() {
    // A key is not used with an algorithm of another key type.
    let unknown = Err(JwsError::UnknownKey(None));
    assert_eq!(Jws::parse(ES256).unwrap().verify(&set(&[RSA_JWK, ED25519_JWK])), unknown);
    assert_eq!(Jws::parse(RS256).unwrap().verify(&set(&[P256_JWK, ED25519_JWK])), unknown);
    // A key for another algorithm or another purpose is not used either.
    for members in
        [r#""alg":"PS256""#, r#""alg":"HS256""#, r#""use":"enc""#, r#""key_ops":["sign"]"#, r#""key_ops":1"#]
    {
        assert_eq!(Jws::parse(RS256).unwrap().verify(&set(&[&with(RSA_JWK, members)])), unknown, "{members}");
    }
    let fitting = with(RSA_JWK, r#""alg":"RS256","use":"sig","key_ops":["verify"]"#);
    assert!(Jws::parse(RS256).unwrap().verify(&set(&[&fitting])).is_ok());
}

#[test]
fn a_token_that_names_its_key_is_of_no_other() {
    let signer = SigningKey::from_pem(P256_PKCS8).unwrap();
    let claims = Raw::parse(r#"{"sub":"a"}"#).unwrap();
    let header = Header { key_id: Some("b"), ..Header::default() };
    let text = signer.sign(header, &claims).unwrap();
    let jwk = signer.public().jwk();
    let jws = Jws::parse(&text).unwrap();
    assert_eq!(jws.key_id().as_deref(), Some("b"));

    assert_eq!(jws.verify(&set(&[P256_JWK, &with(jwk.as_str(), r#""kid":"b""#)])).unwrap(), &claims);
    let unknown = Err(JwsError::UnknownKey(Some("b".into())));
    assert_eq!(jws.verify(&set(&[&with(jwk.as_str(), r#""kid":"a""#)])), unknown);
    assert_eq!(jws.verify(&set(&[jwk.as_str()])), unknown);
    assert_eq!(jws.verify(&KeySet::default()), unknown);
    // With two keys of the same id, both are tried.
    let (one, two) = (with(P256_JWK, r#""kid":"b""#), with(jwk.as_str(), r#""kid":"b""#));
    assert!(jws.verify(&set(&[&one, &two])).is_ok());
    assert_eq!(jws.verify(&set(&[&one])), Err(JwsError::Signature));
}

#[test]
fn what_is_no_token_is_refused_in_words() {
    let long = format!("{}.{}.{}", encode(r#"{"alg":"ES256"}"#), "A".repeat(MAX_TOKEN_BYTES), "AA");
    assert_eq!(Jws::parse(&long).unwrap_err(), JwsError::TooLong);
    let critical = token(r#"{"alg":"ES256","crit":["b64"],"b64":false}"#, "{}");
    assert_eq!(Jws::parse(&critical).unwrap_err(), JwsError::Critical);
    let (header, claims) = (encode(r#"{"alg":"ES256"}"#), encode("{}"));
    let broken = [
        String::new(),
        ".".into(),
        "..".into(),
        header.clone(),
        format!("{header}.{claims}"),
        format!("{header}.{claims}.AA.AA"),
        format!("{header}.{claims}.A"),
        format!("{header}.{claims}.AA=="),
        format!("{header}.{claims}.AB"),
        format!("{header}.{claims}. AA"),
        format!("{header}.{}.AA", encode("[]")),
        format!("{header}.{}.AA", encode(r#"{"a":1,"a":2}"#)),
        format!("{}.{claims}.AA", encode(r#"{"alg":"ES256","alg":"none"}"#)),
        format!("{}.{claims}.AA", encode(r#"{"alg":1}"#)),
        format!("{}.{claims}.AA", encode("{}")),
        format!("{}.{claims}.AA", encode([0xFF, 0xFE])),
    ];
    for text in broken {
        assert!(matches!(Jws::parse(&text), Err(JwsError::Malformed(_))), "{text}");
    }
}

#[test]
fn a_set_is_read_as_far_as_it_can_be_used() {
    let private = with(P256_JWK, r#""kid":"c","d":"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI""#);
    let keys = set(&[
        r#"{"kty":"oct","k":"AAAA"}"#,
        r#"{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}"#,
        r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#,
        r#"{"kty":"RSA","n":"AA","e":"AQAB"}"#,
        r#"{"kty":"OKP","crv":"X25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
        "7",
        "null",
        &private,
    ]);
    assert_eq!(keys.len(), 1);
    assert!(Jws::parse(ES256).unwrap().verify(&keys).is_ok());
    assert!(!format!("{keys:?}").contains("jpsQ"));

    let many: Vec<&str> = std::iter::repeat_n(P256_JWK, 1000).collect();
    assert_eq!(set(&many).len(), super::public::MAX_KEYS);
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":null}"#, r#"{"keys":[],"keys":[]}"#, "\u{7f}"] {
        assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn a_small_rsa_key_verifies_nothing() {
    let jwk = format!(r#"{{"kty":"RSA","e":"AQAB","n":"{}"}}"#, encode([0xC5; 128]));
    let (signed, _) = RS256.rsplit_once('.').unwrap();
    let text = format!("{signed}.{}", encode([1; 128]));
    assert_eq!(Jws::parse(&text).unwrap().verify(&set(&[&jwk])), Err(JwsError::Signature));
}

#[test]
fn every_form_of_a_private_key_signs() {
    let der = signing::read_pem(RSA_PKCS8).unwrap().1;
    // PKCS#8 wraps PKCS#1: 26 octets come first.
    let pkcs1 = format!(
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
        STANDARD.encode(&der[26..])
    );
    let generated = SigningKey::generate_pem().unwrap();
    let forms = [
        (P256_PKCS8, Algorithm::Es256),
        (P256_SEC1, Algorithm::Es256),
        (generated.as_str(), Algorithm::Es256),
        (RSA_PKCS8, Algorithm::Rs256),
        (pkcs1.as_str(), Algorithm::Rs256),
    ];
    let claims = Raw::parse(r#"{"iss":"ä","n":1e400}"#).unwrap();
    for (pem, algorithm) in forms {
        let signer = SigningKey::from_pem(pem).unwrap();
        assert_eq!(signer.algorithm(), algorithm);
        let header = Header { kind: Some("dpop+jwt"), key_id: Some("a \"b\""), with_jwk: true };
        let text = signer.sign(header, &claims).unwrap();
        let jws = Jws::parse(&text).unwrap();
        assert_eq!((jws.kind().as_deref(), jws.key_id().as_deref()), (Some("dpop+jwt"), Some("a \"b\"")));
        assert_eq!(jws.unverified_claims(), &claims);
        let public = PublicKey::from_jwk(&jws.jwk().unwrap()).unwrap();
        assert_eq!(&public, signer.public());
        assert_eq!(jws.verify_with(&public).unwrap(), &claims);
    }
    let same = SigningKey::from_pem(P256_SEC1).unwrap();
    assert_eq!(same.public(), SigningKey::from_pem(P256_PKCS8).unwrap().public());
}

#[test]
fn ps256_and_ed25519_verify() {
    let random = SystemRandom::new();
    let pair = RsaKeyPair::from_pkcs8(&signing::read_pem(RSA_PKCS8).unwrap().1).unwrap();
    let jwk = SigningKey::from_pem(RSA_PKCS8).unwrap().public().jwk();
    let signed = format!("{}.{}", encode(r#"{"alg":"PS256"}"#), encode("{}"));
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PSS_SHA256, &random, signed.as_bytes(), &mut signature).unwrap();
    let text = format!("{signed}.{}", encode(signature));
    assert!(Jws::parse(&text).unwrap().verify(&set(&[jwk.as_str()])).is_ok());
    // The same bytes are no valid signature of PKCS #1, 1.5.
    let other = text.replacen(&encode(r#"{"alg":"PS256"}"#), &encode(r#"{"alg":"RS256"}"#), 1);
    assert_eq!(Jws::parse(&other).unwrap().verify(&set(&[jwk.as_str()])), Err(JwsError::Signature));

    let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let point = encode(ring::signature::KeyPair::public_key(&pair));
    let jwk = format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{point}"}}"#);
    for name in ["EdDSA", "Ed25519"] {
        let signed = format!("{}.{}", encode(format!(r#"{{"alg":"{name}"}}"#)), encode("{}"));
        let text = format!("{signed}.{}", encode(pair.sign(signed.as_bytes())));
        assert!(Jws::parse(&text).unwrap().verify(&set(&[&jwk])).is_ok(), "{name}");
    }
}

#[test]
fn what_is_no_private_key_is_refused_in_words_without_it() {
    let wrong = [
        "",
        "MIGHAgEAMBMG",
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n!!!!\n-----END PRIVATE KEY-----",
        "-----BEGIN EC PRIVATE KEY-----\nMAA=\n-----END EC PRIVATE KEY-----",
        "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nAAAA",
        "-----BEGIN ",
        P384_PKCS8,
    ];
    for pem in wrong {
        let error = SigningKey::from_pem(pem).unwrap_err().to_string();
        assert!(error.contains("private key") && !error.contains("AAAA"), "{pem}: {error}");
    }
    let huge = format!("{P256_PKCS8}{}", " ".repeat(1 << 20));
    assert!(SigningKey::from_pem(&huge).is_err());
    let openssl = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\nAAAA\n-----END RSA PRIVATE KEY-----";
    assert!(SigningKey::from_pem(openssl).unwrap_err().to_string().contains("passphrase"));
}

#[test]
fn nothing_shows_a_private_key_or_a_token() {
    let signer = SigningKey::from_pem(P256_PKCS8).unwrap();
    let private = decode("zgUzkLigVEe7cR6vPpqLnQ1sofr-c-oRa2lIvLdijqw").unwrap();
    let shown = format!("{signer:?}");
    assert!(shown.contains("SigningKey") && !shown.contains(&format!("{private:?}")[1..40]));
    let shown = format!("{:?}", Jws::parse(ES256).unwrap());
    assert_eq!(shown, "Jws { algorithm: Es256, .. }");
}
